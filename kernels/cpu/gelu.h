// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_GELU_H_
#define ZEROTH_KERNELS_CPU_GELU_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"

namespace zeroth::cpu {

// y = gelu(x), tanh approximation; y may be x. NaN stays NaN. `dtype`, of all arrays here and
// below, is fp32, bf16 or fp16.
void Gelu(int64_t n, DType dtype, const void* x, void* y);
// dx = dy * gelu'(x); dx may be dy.
void GeluBackward(int64_t n, DType dtype, const void* x, const void* dy, void* dx);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_GELU_H_
