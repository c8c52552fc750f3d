// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions in host memory, in the order that communicator.h fixes: for back
// ends that have all ranks' elements at hand (shared memory, or after an all-to-all).

#ifndef ZEROTH_CORE_COMM_HOST_REDUCE_H_
#define ZEROTH_CORE_COMM_HOST_REDUCE_H_

#include <cstdint>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// One range of `count` elements on each of sources.size() >= 1 ranks becomes one range.
struct HostReduction {
  absl::Span<const void* const> sources;  // in rank order, of `dtype`
  absl::Span<void* const> destinations;   // each gets the result, of `result_dtype`
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  DType result_dtype = DType::kFloat32;  // `dtype`, or fp32 if `dtype` is floating-point
  ReduceOp op = ReduceOp::kSum;          // integers: not kMean; integer sums wrap around
  bool accumulate = false;  // adds to the (one, fp32, not a source) destination; not for kMax
};

// The reduction that `collective` is, of these elements.
inline HostReduction ReductionOf(const Collective& collective,
                                 absl::Span<const void* const> sources,
                                 absl::Span<void* const> destinations, int64_t count) {
  return {sources,
          destinations,
          count,
          collective.send.dtype,
          collective.recv.dtype,
          *collective.call.reduce,
          collective.accumulate};
}

// A destination may be one of the sources (the same address, the same type) and must not overlap
// them otherwise. The maximum of floats is NaN if any of them is. Reads every source and writes
// every destination once, on the calling thread, holding only a few cache-resident blocks beside
// them.
void ReduceOnHost(const HostReduction& reduction);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_HOST_REDUCE_H_
