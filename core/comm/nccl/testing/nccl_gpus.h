// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The number of NCCL ranks that a test may have. NCCL needs a GPU for each rank; with the emulated
// NCCL all ranks share one.

#pragma once

#include <cuda_runtime.h>

#include <limits>

#include "gtest/gtest.h"

namespace zeroth::testing {

// True if tests may expect behaviour that depends on NCCL's release and on the links between GPUs.
inline constexpr bool NcclIsEmulated() {
#if defined(ZEROTH_CUDA_EMULATION)
  return true;
#else
  return false;
#endif
}

// 0 if there is no GPU or no driver.
inline int MostNcclRanks() {
  if (NcclIsEmulated()) return std::numeric_limits<int>::max();
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace zeroth::testing

// Skips the rest of a test function if this machine has fewer GPUs than the test has ranks.
#define ZEROTH_SKIP_BEYOND_NCCL_RANKS(ranks)                                                   \
  if ((ranks) > ::zeroth::testing::MostNcclRanks())                                            \
  GTEST_SKIP() << (ranks) << " ranks of NCCL want " << (ranks) << " GPUs, of which there are " \
               << ::zeroth::testing::MostNcclRanks()
