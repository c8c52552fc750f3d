// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums and maxima over a warp or a block, in a fixed order.

#ifndef ZEROTH_KERNELS_CUDA_WARP_H_
#define ZEROTH_KERNELS_CUDA_WARP_H_

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

// Also for the bits of floats' magnitudes, which are ordered as integers are, with NaN above all.
__device__ __forceinline__ unsigned WarpMax(unsigned x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const unsigned other = __shfl_xor_sync(kWholeWarp, x, mask);
    x = other > x ? other : x;
  }
  return x;
}

// Returns the sum over a block of kThreads to every thread; all threads must call it. `scratch` has
// kThreads / 32 elements of shared memory.
template <int kThreads>
__device__ __forceinline__ float BlockSum(float x, float* scratch) {
  const unsigned warp = threadIdx.x / 32;
  x = WarpSum(x);
  if (threadIdx.x % 32 == 0) scratch[warp] = x;
  __syncthreads();
  float sum = scratch[0];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i) sum = __fadd_rn(sum, scratch[i]);
  __syncthreads();  // the scratch may be used again
  return sum;
}

template <int kThreads>
__device__ __forceinline__ float BlockMax(float x, float* scratch) {
  const unsigned warp = threadIdx.x / 32;
  x = WarpMax(x);
  if (threadIdx.x % 32 == 0) scratch[warp] = x;
  __syncthreads();
  float largest = scratch[0];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i) largest = fmaxf(largest, scratch[i]);
  __syncthreads();
  return largest;
}

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_WARP_H_
