// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Reductions in host memory, in the order that communicator.h fixes. For back ends that have the
// elements of all ranks at hand: in shared memory, or after an all-to-all.

#pragma once

#include <cstdint>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// Reduces `count` elements of each of sources.size() >= 1 ranks to `count` elements.
struct HostReduction {
  absl::Span<const void* const> sources;  // in rank order, of `dtype`
  absl::Span<void* const> destinations;   // each receives the result, of `result_dtype`
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  // Equal to `dtype`; or both are floating-point, and one of them is fp32.
  DType result_dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // not kMean for integers, whose sums wrap around
  // Adds the result to the destination instead of overwriting it. There must be one destination, of
  // fp32, that is not a source. Not for kMax.
  bool accumulate = false;
  // kMean divides by this number of ranks, if each source is a sum over several. 0: by the number
  // of sources.
  int mean_of = 0;
};

// A HostReduction whose sources lie in one strided buffer: at `others` in rank order,
// `bytes_per_rank` apart. If own >= 0, the elements of rank `own` are at `own_elements` instead,
// and the buffer has no gap for them.
struct StridedReduction {
  const void* others = nullptr;
  int64_t bytes_per_rank = 0;
  int ranks = 1;
  int own = -1;
  const void* own_elements = nullptr;
  void* destination = nullptr;  // may be own_elements
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  DType result_dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int mean_of = 0;
  bool accumulate = false;
};

// Returns the reduction of these elements that `collective` asks for.
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

// A destination may be one of the sources, with the same address and type. Otherwise it must not
// overlap them. The maximum of floats is NaN if any of them is. Runs on the calling thread. Reads
// every source and writes every destination once, and needs only a few blocks of scratch that stay
// in the cache.
void ReduceOnHost(const HostReduction& reduction);
void ReduceOnHost(const StridedReduction& reduction);

}  // namespace zeroth
