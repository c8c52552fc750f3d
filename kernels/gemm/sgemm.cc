// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/gemm/sgemm.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dnnl.h"

namespace zeroth::cpu {
namespace {

// A single row may carry any stride; oneDNN insists on one that is at least the width.
int64_t Stride(int64_t stride, int64_t width) { return std::max(stride, width); }

}  // namespace

absl::Status Sgemm(const GemmCall& call) {
  // The BLAS-like entry rather than the matmul primitive: it copies both operands into its own
  // tiles and so is indifferent to strides, where the primitive drops to half of its rate at a row
  // stride of 12 KiB (3072 columns).
  const dnnl_status_t status = dnnl_sgemm(
      call.transpose_a ? 'T' : 'N', call.transpose_b ? 'T' : 'N', call.m, call.n, call.k, 1.0f,
      static_cast<const float*>(call.a), Stride(call.lda, call.transpose_a ? call.m : call.k),
      static_cast<const float*>(call.b), Stride(call.ldb, call.transpose_b ? call.k : call.n),
      call.accumulate ? 1.0f : 0.0f, static_cast<float*>(call.c), Stride(call.ldc, call.n));
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("Gemm: oneDNN refused a product of m = ", call.m,
                                          ", n = ", call.n, ", k = ", call.k, " with row strides ",
                                          call.lda, ", ", call.ldb, ", ", call.ldc,
                                          " (dnnl_status_t ", static_cast<int>(status), ")"));
}

}  // namespace zeroth::cpu
