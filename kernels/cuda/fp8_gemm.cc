// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cuda/fp8_gemm.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cuda/gemm_call.h"

namespace zeroth::cuda {
namespace {

// A product without terms, which is no product to cuBLASLt: c is the bias, or stays as it is.
absl::Status EmptyProduct(const Fp8GemmCall& call, const LaunchTarget& target) {
  GemmCall empty;
  empty.m = call.m;
  empty.n = call.n;
  empty.dtype = call.c_dtype;
  empty.c_dtype = call.c_dtype;
  empty.c = call.c;
  empty.ldc = call.ldc;
  empty.accumulate = call.accumulate;
  empty.bias = call.bias;
  return PlainGemm(empty, target);
}

}  // namespace

ProductKey KeyOf(const Fp8GemmCall& call) {
  ProductKey key;
  key.rows = call.n;
  key.columns = call.m;
  key.depth = call.k;
  key.dtype = call.c_dtype;
  key.c_dtype = call.c_dtype;
  key.fp8 = true;
  key.first_format = call.b_format;
  key.second_format = call.a_format;
  key.transpose_first = true;
  key.first_ld = call.k;
  key.second_ld = call.k;
  key.c_ld = call.ldc;
  key.accumulate = call.accumulate;
  key.first_alignment = AlignmentOf(call.b);
  key.second_alignment = AlignmentOf(call.a);
  key.c_alignment = AlignmentOf(call.c);
  key.bias_alignment = AlignmentOf(call.bias);
  key.aux_alignment = AlignmentOf(nullptr);
  if (call.bias != nullptr) key.epilogue = Epilogue::kBias;
  return key;
}

absl::Status Fp8Gemm(const Fp8GemmCall& call, CublasLt& blas, const LaunchTarget& target) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  if (call.k == 0) return EmptyProduct(call, target);
  ProductPointers pointers;
  pointers.first = call.b;
  pointers.first_scale = call.b_scale;
  pointers.second = call.a;
  pointers.second_scale = call.a_scale;
  pointers.c = call.c;
  pointers.bias = call.bias;
  ZEROTH_ASSIGN_OR_RETURN(const bool multiplied, blas.Multiply(KeyOf(call), pointers));
  if (multiplied) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("Fp8Gemm: cuBLASLt has no algorithm for [", call.m,
                                               ", ", call.k, "] x [", call.k, ", ", call.n,
                                               "] of 8-bit floats into ", DTypeName(call.c_dtype),
                                               " on this GPU; multiply this layer in bf16"));
}

}  // namespace zeroth::cuda
