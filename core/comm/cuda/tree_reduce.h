// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions in GPU memory, with the bits of host_reduce.h.

#ifndef ZEROTH_CORE_COMM_CUDA_TREE_REDUCE_H_
#define ZEROTH_CORE_COMM_CUDA_TREE_REDUCE_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"

#include "zeroth/core/comm/host_reduce.h"

namespace zeroth::cuda {

// Pointers travel as kernel arguments, of which there are 4 KB.
inline constexpr int kMostTreeRanks = 64;

// Enqueues what ReduceOnHost does, with pointers to memory of the current device. Unimplemented
// beyond kMostTreeRanks sources or destinations.
absl::Status TreeReduce(const HostReduction& reduction, int multiprocessors, cudaStream_t stream);

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_COMM_CUDA_TREE_REDUCE_H_
