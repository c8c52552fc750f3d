// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_ADAMW_H_
#define ZEROTH_KERNELS_CPU_ADAMW_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw_coefficients.h"

namespace zeroth::cpu {

// One step in place over n elements in one pass; grad is fp32, bf16 or fp16.
void AdamW(int64_t n, const AdamWCoefficients& coefficients, float* param, DType grad_dtype,
           const void* grad, float* m, float* v);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_ADAMW_H_
