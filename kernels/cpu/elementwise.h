// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_ELEMENTWISE_H_
#define ZEROTH_KERNELS_CPU_ELEMENTWISE_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"

namespace zeroth::cpu {

// out = a + b; out may be either. `dtype`, of all arrays here, in Scale and in Lerp, is fp32,
// bf16 or fp16.
void Add(int64_t n, DType dtype, const void* a, const void* b, void* out);
// x *= factor.
void Scale(int64_t n, float factor, DType dtype, void* x);
// x += weight * (target - x).
void Lerp(int64_t n, float weight, DType dtype, const void* target, void* x);
// n elements of any type become zero bytes, written by the threads that would compute there.
void FillZero(int64_t n, DType dtype, void* x);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ELEMENTWISE_H_
