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

// At most kMostStridedRanks.
inline constexpr int kMostStridedRanks = 1 << 20;
absl::Status TreeReduce(const StridedReduction& reduction, int multiprocessors,
                        cudaStream_t stream);

}  // namespace zeroth::cuda
