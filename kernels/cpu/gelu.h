// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_GELU_H_
#define ZEROTH_KERNELS_CPU_GELU_H_

#include <cstdint>

namespace zeroth::cpu {

// y = gelu(x), tanh approximation; y may be x. NaN stays NaN.
void Gelu(int64_t n, const float* x, float* y);
// dx = dy * gelu'(x); dx may be dy.
void GeluBackward(int64_t n, const float* x, const float* dy, float* dx);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_GELU_H_
