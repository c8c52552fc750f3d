// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/gemm.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dnnl.h"

#include "zeroth/kernels/cpu/gemm_epilogue.h"

namespace zeroth::cpu {
namespace {

// A single row may carry any stride; oneDNN insists on one that is at least the width.
int64_t Stride(int64_t stride, int64_t width) { return std::max(stride, width); }

absl::Status Product(const GemmCall& call) {
  if (call.k == 0) {
    if (call.accumulate) return absl::OkStatus();
    for (int64_t i = 0; i < call.m; ++i) std::fill_n(call.c + i * call.ldc, call.n, 0.0f);
    return absl::OkStatus();
  }
  // The BLAS-like entry rather than the matmul primitive: it copies both operands into its own
  // tiles and so is indifferent to strides, where the primitive drops to half of its rate at a row
  // stride of 12 KiB (3072 columns).
  const dnnl_status_t status =
      dnnl_sgemm(call.transpose_a ? 'T' : 'N', call.transpose_b ? 'T' : 'N', call.m, call.n, call.k,
                 1.0f, call.a, Stride(call.lda, call.transpose_a ? call.m : call.k), call.b,
                 Stride(call.ldb, call.transpose_b ? call.k : call.n),
                 call.accumulate ? 1.0f : 0.0f, call.c, Stride(call.ldc, call.n));
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("Gemm: oneDNN refused a product of m = ", call.m,
                                          ", n = ", call.n, ", k = ", call.k, " with row strides ",
                                          call.lda, ", ", call.ldb, ", ", call.ldc,
                                          " (dnnl_status_t ", static_cast<int>(status), ")"));
}

}  // namespace

absl::Status Gemm(const GemmCall& call) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  absl::Status status = Product(call);
  if (!status.ok()) return status;
  BiasActivation(call.m, call.n, call.bias, call.activation, call.c, call.ldc);
  return absl::OkStatus();
}

}  // namespace zeroth::cpu
