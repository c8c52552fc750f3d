// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/gemm.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::cuda {
ProductKey KeyOf(const GemmCall& call, bool allow_tf32) {
  ProductKey key;
  key.rows = call.n;
  key.columns = call.m;
  key.depth = call.k;
  key.dtype = call.dtype;
  key.c_dtype = call.c_dtype;
  key.transpose_first = call.transpose_b;
  key.transpose_second = call.transpose_a;
  key.first_ld = call.ldb;
  key.second_ld = call.lda;
  key.c_ld = call.ldc;
  key.accumulate = call.accumulate;
  key.allow_tf32 = allow_tf32;
  key.first_alignment = AlignmentOf(call.b);
  key.second_alignment = AlignmentOf(call.a);
  key.c_alignment = AlignmentOf(call.c);
  if (call.gelu_input != nullptr) {
    key.epilogue = Epilogue::kGeluBackward;
  } else if (call.activation == Activation::kGelu) {
    key.epilogue = call.pre_activation == nullptr
                       ? (call.bias == nullptr ? Epilogue::kGelu : Epilogue::kBiasGelu)
                       : (call.bias == nullptr ? Epilogue::kGeluAux : Epilogue::kBiasGeluAux);
  } else if (call.bias != nullptr) {
    key.epilogue = Epilogue::kBias;
  }
  return key;
}

absl::Status Gemm(const GemmCall& call, CublasLt& blas, const LaunchTarget& target) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  // cuBLASLt has no SiLU, and no product over nothing.
  if (call.k == 0 || call.activation == Activation::kSilu) return PlainGemm(call, target);
  const ProductKey key = KeyOf(call, blas.allow_tf32());
  ZEROTH_ASSIGN_OR_RETURN(const ProductPlan* plan, blas.FindPlan(key));
  if (plan == nullptr) return PlainGemm(call, target);
  ProductPointers pointers;
  pointers.first = call.b;
  pointers.second = call.a;
  pointers.c = call.c;
  pointers.bias = call.bias;
  pointers.aux = call.gelu_input != nullptr ? call.gelu_input : call.pre_activation;
  return blas.Run(*plan, pointers);
}

}  // namespace zeroth::cuda
