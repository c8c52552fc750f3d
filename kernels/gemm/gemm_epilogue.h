// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_GEMM_GEMM_EPILOGUE_H_
#define ZEROTH_KERNELS_GEMM_GEMM_EPILOGUE_H_

#include <cstdint>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"

namespace zeroth::cpu {

// Where an fp32 product goes and what happens to it on the way; fields as in GemmArgs.
struct GemmEpilogue {
  DType bias_dtype = DType::kFloat32;
  const void* bias = nullptr;  // [n], or null
  Activation activation = Activation::kNone;
  bool accumulate = false;
  DType c_dtype = DType::kFloat32;  // of c, pre_activation and gelu_input
  void* c = nullptr;                // [m, n]
  int64_t ldc = 0;
  void* pre_activation = nullptr;    // [m, n], or null
  const void* gelu_input = nullptr;  // [m, n], or null
  int64_t saved_ld = 0;              // distance of the rows of pre_activation and gelu_input

  // The same for the block of c that begins there.
  GemmEpilogue At(int64_t row, int64_t column) const;
  // c is the product, rounded if need be.
  bool IsPlain() const;
};

// Everything between `product` [m, n], with rows `ld` elements apart, and c, in one pass and
// rounded once. `product` may be c itself. Elements depend on themselves alone.
void FinishProduct(int64_t m, int64_t n, const float* product, int64_t ld,
                   const GemmEpilogue& epilogue);

// Of the whole call.
inline GemmEpilogue EpilogueOf(const GemmCall& call) {
  return {.bias_dtype = call.dtype,
          .bias = call.bias,
          .activation = call.activation,
          .accumulate = call.accumulate,
          .c_dtype = call.c_dtype,
          .c = call.c,
          .ldc = call.ldc,
          .pre_activation = call.pre_activation,
          .gelu_input = call.gelu_input,
          .saved_ld = call.saved_ld > 0 ? call.saved_ld : call.n};
}

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_GEMM_GEMM_EPILOGUE_H_
