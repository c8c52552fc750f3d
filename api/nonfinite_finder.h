// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which operation was the first to make infinities or NaNs.

#ifndef ZEROTH_API_NONFINITE_FINDER_H_
#define ZEROTH_API_NONFINITE_FINDER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/call_watch.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// Looks at what every operation of a step that is run again has read and written, on the host: for
// a step of which it is known already that something in it was not finite. Remembers the first
// place. Watches `kernels` for as long as it exists. One rank's thread only.
class NonFiniteFinder : public CallWatch {
 public:
  // Both outlive it.
  NonFiniteFinder(Sharding& sharding, Kernels& kernels);
  ~NonFiniteFinder() override;

  // Where in the step the next calls are: "the forward of micro-batch 1".
  void set_place(std::string place) { place_ = std::move(place); }
  absl::Status AfterCall(const char* operation, absl::Span<const CallField> fields) override;
  // Looks at the reduced gradients, which no operation of the kernels has made. Between
  // Scheduler::FinishBackward and EndStep.
  absl::Status LookAtReducedGradients();

  // Collective: what was found first, on whichever rank, in words that are the same on every rank;
  // empty if everything was finite everywhere.
  absl::StatusOr<std::string> Agree();

 private:
  void Found(std::string text);

  Sharding& sharding_;
  Kernels& kernels_;
  std::string place_;
  std::string parameter_;    // that was used last, and its unit
  int64_t calls_ = 0;        // so far
  int64_t found_after_ = 0;  // calls, if there is a text
  std::string text_;
};

}  // namespace zeroth

#endif  // ZEROTH_API_NONFINITE_FINDER_H_
