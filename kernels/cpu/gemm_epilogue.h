// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_GEMM_EPILOGUE_H_
#define ZEROTH_KERNELS_CPU_GEMM_EPILOGUE_H_

#include <cstdint>

#include "zeroth/kernels/kernels.h"

namespace zeroth::cpu {

// c[m, n] = activation(c + bias) in place; bias [n] or null; rows of c are `ldc` elements apart.
void BiasActivation(int64_t m, int64_t n, const float* bias, Activation activation, float* c,
                    int64_t ldc);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_GEMM_EPILOGUE_H_
