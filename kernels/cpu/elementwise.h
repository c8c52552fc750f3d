// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_ELEMENTWISE_H_
#define ZEROTH_KERNELS_CPU_ELEMENTWISE_H_

#include <cstdint>

namespace zeroth::cpu {

// out = a + b; out may be either.
void Add(int64_t n, const float* a, const float* b, float* out);
// x *= factor.
void Scale(int64_t n, float factor, float* x);
// Zero bytes, written by the threads that would compute there.
void FillZero(int64_t n, float* x);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ELEMENTWISE_H_
