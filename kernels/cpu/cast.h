// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_CAST_H_
#define ZEROTH_KERNELS_CPU_CAST_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"

namespace zeroth::cpu {

// Converts n elements between fp32, bf16 and fp16, to the bits that ToBFloat16, ToFloat16 and
// ToFloat give; the same type copies. Other types are a bug and abort. The arrays do not overlap.
void Cast(int64_t n, DType from, const void* src, DType to, void* dst);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_CAST_H_
