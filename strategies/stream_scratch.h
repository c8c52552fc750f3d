// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_STRATEGIES_STREAM_SCRATCH_H_
#define ZEROTH_STRATEGIES_STREAM_SCRATCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// Memory for what is on its way: sums that are to be rounded once, at the end of several groups,
// state between a store and its place, what a collective sends in another form. Used by one stream
// only, whose order makes one piece of memory enough.
class StreamScratch {
 public:
  StreamScratch(Device& device, MemoryCategory category, Kernels* kernels)
      : device_(device), category_(category), kernels_(kernels) {}

  // [numel] fp32 for what `comm` enqueues next, until the next of these calls.
  absl::StatusOr<Tensor> Take(int64_t numel, Stream& comm);
  // The same as uint8 [bytes].
  absl::StatusOr<Tensor> TakeBytes(int64_t bytes, Stream& comm);
  // As the owner was given it, see StrategyContext.
  Kernels* kernels() const { return kernels_; }
  // Gives the memory back, once the compute stream has waited for its last use; also if that
  // failed, with its error.
  absl::Status Trim();

 private:
  Device& device_;
  MemoryCategory category_;
  Kernels* kernels_;
  Tensor memory_;
  Stream* stream_ = nullptr;  // that uses it
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_STREAM_SCRATCH_H_
