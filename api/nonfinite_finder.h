// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds the first operation that made infinities or NaNs.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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
  // `teacher` is the sharding of a teacher on the same kernels, or nullptr; messages name its
  // parameters as the teacher's. All arguments outlive the finder.
  NonFiniteFinder(Sharding& sharding, Kernels& kernels, const Sharding* teacher = nullptr);
  ~NonFiniteFinder() override;

  // Name where in the step the next calls are: "the forward of micro-batch 1", for index 0.
  void set_place(std::string place) { place_ = std::move(place); }
  void EnterPass(absl::string_view pass, int64_t micro_batch) {
    place_ = absl::StrCat(pass, " of micro-batch ", micro_batch + 1);
  }
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
  const Sharding* teacher_;
  Kernels& kernels_;
  std::string place_;
  std::string parameter_;    // name of the last parameter used, with its unit
  int64_t calls_ = 0;        // so far
  int64_t found_after_ = 0;  // calls_ when text_ was set
  std::string text_;
};

}  // namespace zeroth
