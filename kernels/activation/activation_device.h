// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "zeroth/core/device/cuda/kernel_language.h"

namespace zeroth::cuda {

// logistic(x) = 1 / (1 + exp(-x)), and its slope, computed as logistic(x) * logistic(-x) because 1
// - logistic(x) would cancel.
struct LogisticValue {
  float value;
  float slope;
};
__device__ __forceinline__ LogisticValue LogisticWithSlope(float x) {
  const float e = expf(-fabsf(x));                 // never overflows
  const float large = __fdividef(1.0f, 1.0f + e);  // the divisor is in [1, 2]
  return {x >= 0.0f ? large : e * large, e * large * large};
}
__device__ __forceinline__ float Logistic(float x) { return LogisticWithSlope(x).value; }

// The tanh form of GELU is x * logistic(z), z = 2 sqrt(2 / pi) (x + 0.044715 x^3): one exponential
// instead of a tanh.
inline constexpr float kGeluLinear = 1.5957691216057308f;
inline constexpr float kGeluCubic = 0.07135481282052827f;  // kGeluLinear * 0.044715

__device__ __forceinline__ float GeluOf(float x) {
  return x * Logistic(x * __fmaf_rn(kGeluCubic, x * x, kGeluLinear));
}

__device__ __forceinline__ float GeluSlope(float x) {
  const LogisticValue s = LogisticWithSlope(x * __fmaf_rn(kGeluCubic, x * x, kGeluLinear));
  const float dz = __fmaf_rn(3.0f * kGeluCubic, x * x, kGeluLinear);
  // For large |x|, x * x may be infinite where the slope is zero.
  return s.slope == 0.0f ? s.value : __fmaf_rn(x * dz, s.slope, s.value);
}

__device__ __forceinline__ float SiluOf(float x) { return x * Logistic(x); }

__device__ __forceinline__ float SiluSlope(float x) {
  const LogisticValue s = LogisticWithSlope(x);
  return s.slope == 0.0f ? s.value : __fmaf_rn(x, s.slope, s.value);
}

}  // namespace zeroth::cuda
