// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_BY_ELEMENT_TYPE_H_
#define ZEROTH_KERNELS_CPU_BY_ELEMENT_TYPE_H_

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"

namespace zeroth::cpu {

// The version of a kernel for elements of `dtype`: fp32, bf16 or fp16, which validation has made
// sure of.
template <typename Function>
Function ByElementType(DType dtype, Function fp32, Function bf16, Function fp16) {
  ZEROTH_CHECK(IsFloatingPoint(dtype));
  if (dtype == DType::kFloat32) return fp32;
  return dtype == DType::kBFloat16 ? bf16 : fp16;
}

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_BY_ELEMENT_TYPE_H_
