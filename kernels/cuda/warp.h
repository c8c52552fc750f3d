// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums and maxima over a warp or a block, in a fixed order.

#pragma once

#include "zeroth/core/device/cuda/kernel_language.h"

namespace zeroth::cuda {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

// Returns the sum over the warp to every lane.
__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    x = __fadd_rn(x, __shfl_xor_sync(kWholeWarp, x, mask));
  }
  return x;
}

__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, mask));
  return x;
}

// Also works on the bits of float magnitudes, which compare like integers, with NaN as the largest.
__device__ __forceinline__ unsigned WarpMax(unsigned x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const unsigned other = __shfl_xor_sync(kWholeWarp, x, mask);
    x = other > x ? other : x;
  }
  return x;
}

// Combines one value from each warp of a block of kThreads, in the order of warps.
template <int kThreads, typename Combine>
__device__ __forceinline__ float OverWarps(float x, float* scratch, const Combine& combine) {
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  __syncthreads();
  float all = scratch[0];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i) all = combine(all, scratch[i]);
  __syncthreads();  // the scratch may be used again
  return all;
}

// Return the sum and the maximum over a block of kThreads to every thread; all threads must call
// them. `scratch` has kThreads / 32 elements of shared memory.
template <int kThreads>
__device__ __forceinline__ float BlockSum(float x, float* scratch) {
  return OverWarps<kThreads>(WarpSum(x), scratch, [](float a, float b) { return __fadd_rn(a, b); });
}
template <int kThreads>
__device__ __forceinline__ float BlockMax(float x, float* scratch) {
  return OverWarps<kThreads>(WarpMax(x), scratch, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace zeroth::cuda
