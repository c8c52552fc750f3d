// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds the first operation that made infinities or NaNs.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// Checks on the host what every operation reads and writes, and remembers the first infinity or
// NaN. Use it to repeat a step that is known to produce one. Watches `kernels` during its lifetime.
// Used by one rank's thread only.
class NonFiniteFinder : public CallWatch {
 public:
  // `sharding` and `kernels` outlive the finder.
  NonFiniteFinder(Sharding& sharding, Kernels& kernels);
  ~NonFiniteFinder() override;

  // Names where in the step the next calls are: "the forward of micro-batch 1".
  void set_place(std::string place) { place_ = std::move(place); }
  absl::Status AfterCall(const char* operation, absl::Span<const CallField> fields) override;
  // Checks the reduced gradients, which collectives wrote, not the kernels. Call it between
  // Scheduler::FinishBackward and EndStep.
  absl::Status CheckReducedGradients();

  // Collective: returns a description of the first place on any rank, the same text on every rank;
  // empty if all values were finite on all ranks.
  absl::StatusOr<std::string> Agree();

 private:
  void Found(std::string text);

  Sharding& sharding_;
  Kernels& kernels_;
  std::string place_;
  std::string parameter_;    // name of the last parameter used, with its unit
  int64_t calls_ = 0;        // so far
  int64_t found_after_ = 0;  // calls_ when text_ was set
  std::string text_;
};

}  // namespace zeroth
