// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_ACTIVATION_H_
#define ZEROTH_KERNELS_CUDA_ACTIVATION_H_

#include "zeroth/core/device/cuda/kernel_language.h"

namespace zeroth::cuda {

// 1 / (1 + exp(-x)), without overflow on the way.
__device__ __forceinline__ float Logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

// The tanh form of GELU is x * logistic(z), z = 2 sqrt(2 / pi) (x + 0.044715 x^3): one exponential
// instead of a tanh.
inline constexpr float kGeluLinear = 1.5957691216057308f;
inline constexpr float kGeluCubic = 0.07135481282052827f;  // kGeluLinear * 0.044715

__device__ __forceinline__ float GeluOf(float x) {
  return x * Logistic(x * (kGeluLinear + kGeluCubic * x * x));
}

__device__ __forceinline__ float GeluSlope(float x) {
  const float s = Logistic(x * (kGeluLinear + kGeluCubic * x * x));
  const float dz = kGeluLinear + 3.0f * kGeluCubic * x * x;
  // Far out x * x may be infinite where 1 - s is zero.
  const float bend = s * (1.0f - s);
  return s + (bend == 0.0f ? 0.0f : x * bend * dz);
}

__device__ __forceinline__ float SiluOf(float x) { return x * Logistic(x); }

__device__ __forceinline__ float SiluSlope(float x) {
  const float s = Logistic(x);
  const float bend = s * (1.0f - s);
  return s + (bend == 0.0f ? 0.0f : x * bend);
}

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_ACTIVATION_H_
