// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_GEMM_WIDEN_H_
#define ZEROTH_KERNELS_GEMM_WIDEN_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"

namespace zeroth::cpu {

// to[rows, cols] (contiguous) = from[rows, cols] of `dtype`, whose rows are `ld` elements apart;
// exact.
void WidenRows(int64_t rows, int64_t cols, DType dtype, const void* from, int64_t ld, float* to);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_WIDEN_H_
