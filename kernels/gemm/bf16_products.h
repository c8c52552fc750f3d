// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_GEMM_BF16_PRODUCTS_H_
#define ZEROTH_KERNELS_GEMM_BF16_PRODUCTS_H_

#include <cstdint>

namespace zeroth::cpu {

enum class Bf16Products {
  kNative,   // by the CPU's own bf16 instructions
  kWidened,  // in fp32, each operand widened first
};

// True where oneDNN multiplies bf16 operands of this depth (k) with instructions for bf16.
bool HasNativeBf16Products(int64_t depth);

// What this CPU does faster. It is read from what the CPU says of itself and not measured, so that
// every rank and every run on a kind of CPU adds in one order.
Bf16Products FastestBf16Products(int64_t depth);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_BF16_PRODUCTS_H_
