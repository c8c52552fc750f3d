// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions in GPU memory, with the bits of host_reduce.h.

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/comm/host_reduce.h"

namespace zeroth::cuda {

// Pointers are passed as kernel arguments, which are limited to 4 KB.
inline constexpr int kMostTreeRanks = 64;

// Enqueues what ReduceOnHost does, with pointers to memory of the current device. Unimplemented
// beyond kMostTreeRanks sources or destinations.
absl::Status TreeReduce(const HostReduction& reduction, int multiprocessors, cudaStream_t stream);

// The same for ranks whose elements lie at `others` in rank order, `bytes_per_rank` apart. If
// own >= 0, rank `own` has no place there, and its elements are at `own_elements`.
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
  int mean_of = 0;  // the number that kMean divides by; 0: the number of ranks
  bool accumulate = false;
};

// At most kMostStridedRanks.
inline constexpr int kMostStridedRanks = 1 << 20;
absl::Status TreeReduce(const StridedReduction& reduction, int multiprocessors,
                        cudaStream_t stream);

}  // namespace zeroth::cuda
