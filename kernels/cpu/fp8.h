// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// 8-bit floats on the CPU, for the results that a GPU gets, not for speed: no CPU here multiplies
// them. Every number of both formats is one of bf16's, so products are exact bf16 products.

#ifndef ZEROTH_KERNELS_CPU_FP8_H_
#define ZEROTH_KERNELS_CPU_FP8_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/calls.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/fp8.h"

namespace zeroth::cpu {

absl::Status CastFp8(const CastFp8Call& call, Workspace& workspace);

// Fields as in Fp8GemmArgs.
struct Fp8GemmCall {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const uint8_t* a = nullptr;  // [m, k]
  Fp8Format a_format = Fp8Format::kE4M3;
  const uint8_t* b = nullptr;  // [n, k]
  Fp8Format b_format = Fp8Format::kE4M3;
  float scale = 1.0f;  // of both operands together
  DType c_dtype = DType::kFloat32;
  void* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
  const void* bias = nullptr;
  bool any_team = false;  // as in GemmCall
};

// `operands` holds b and some rows of a in bf16, and their product in fp32; `products` is that of
// the bf16 product.
absl::Status Fp8Gemm(const Fp8GemmCall& call, Workspace& operands, Workspace& products);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_FP8_H_
