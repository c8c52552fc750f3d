// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/gemm/gemm_cpu.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "dnnl.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"

namespace zeroth::cpu {
namespace {

// A single row may carry any stride; oneDNN insists on one that is at least the width.
int64_t Stride(int64_t stride, int64_t width) { return std::max(stride, width); }

// Side of the blocks in which fp32 products become a 16-bit c.
constexpr int64_t kBlock = 1024;

// Handles depth 0: the product is zero, and bias and activation still apply.
absl::Status EmptyProduct(const GemmCall& call, Workspace& workspace) {
  ZEROTH_ASSIGN_OR_RETURN(float* zeros, workspace.ReserveFloats(call.n));
  std::fill_n(zeros, call.n, 0.0f);
  FinishProduct(call, zeros, 0);
  return absl::OkStatus();
}

absl::Status Float32Gemm(const GemmCall& call, Workspace& workspace) {
  if (call.c_dtype == DType::kFloat32) {
    ZEROTH_RETURN_IF_ERROR(Sgemm(call));
    if (HasEpilogue(call)) FinishProduct(call, static_cast<const float*>(call.c), call.ldc);
    return absl::OkStatus();
  }
  const int64_t max_m = std::min(kBlock, call.m);
  const int64_t max_n = std::min(kBlock, call.n);
  ZEROTH_ASSIGN_OR_RETURN(float* product, workspace.ReserveFloats(max_m * max_n));
  return ForEachBlock(call, max_m, max_n, [&](const GemmBlock& block) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(Sgemm(ProductOfBlock(call, block, product)));
    FinishProduct(BlockOf(call, block), product, block.n);
    return absl::OkStatus();
  });
}

// Widening an operand costs as much as about 60 terms of its products. With sides of 1024 that is
// about a tenth of the work, and the three blocks fit into a core's share of the last-level cache.
constexpr int64_t kWidenedBlock = 1024;

// The sizes of a block, at most.
struct WidenedSizes {
  int64_t m;
  int64_t n;
  int64_t k;
};
WidenedSizes WidenedSizesOf(const GemmCall& call) {
  return {std::min(kWidenedBlock, call.m), std::min(kWidenedBlock, call.n),
          std::min(kWidenedBlock, call.k)};
}

struct Scratch {
  float* a;
  float* b;
  float* product;
};

// Computes terms [k, k + count) of a block's product. The first terms set it, and later ones are
// added.
absl::Status AddTerms(const GemmCall& call, const GemmBlock& block, int64_t k, int64_t count,
                      const Scratch& scratch, GemmCall part) {
  const int64_t a_rows = call.transpose_a ? count : block.m;
  const int64_t a_cols = call.transpose_a ? block.m : count;
  const int64_t b_rows = call.transpose_b ? block.n : count;
  const int64_t b_cols = call.transpose_b ? count : block.n;
  WidenRows(a_rows, a_cols, call.dtype, ElementOfA(call, block.row, k), call.lda, scratch.a);
  WidenRows(b_rows, b_cols, call.dtype, ElementOfB(call, k, block.column), call.ldb, scratch.b);
  part.k = count;
  part.a = scratch.a;
  part.lda = a_cols;
  part.b = scratch.b;
  part.ldb = b_cols;
  part.accumulate = part.accumulate || k > 0;
  return Sgemm(part);
}

}  // namespace

absl::Status Sgemm(const GemmCall& call) {
  // This calls the BLAS-like function rather than the matmul primitive. It copies both operands
  // into its own tiles and is therefore indifferent to strides, while the primitive drops to half
  // of its rate at a row stride of 12 KiB (3072 columns).
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

int64_t WidenedFloats(const GemmCall& call) {
  const auto [m, n, k] = WidenedSizesOf(call);
  return m * k + k * n + m * n;
}

absl::Status WidenedGemm(const GemmCall& call, Workspace& workspace) {
  const auto [max_m, max_n, max_k] = WidenedSizesOf(call);
  // An fp32 c without an epilogue holds the partial sums itself.
  const bool direct = call.c_dtype == DType::kFloat32 && !HasEpilogue(call);
  ZEROTH_ASSIGN_OR_RETURN(float* base, workspace.ReserveFloats(WidenedFloats(call)));
  const Scratch scratch{base, base + max_m * max_k, base + max_m * max_k + max_k * max_n};
  return ForEachBlock(call, max_m, max_n, [&](const GemmBlock& block) -> absl::Status {
    GemmCall part = ProductOfBlock(call, block, scratch.product);
    const GemmCall to = BlockOf(call, block);
    if (direct) {
      part.c = to.c;
      part.ldc = to.ldc;
      part.accumulate = call.accumulate;
    }
    for (int64_t k = 0; k < call.k; k += max_k) {
      ZEROTH_RETURN_IF_ERROR(AddTerms(call, block, k, std::min(max_k, call.k - k), scratch, part));
    }
    if (!direct) FinishProduct(to, scratch.product, block.n);
    return absl::OkStatus();
  });
}

absl::Status OneDnnGemm(const GemmCall& call, Workspace& workspace) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  if (call.k == 0) return EmptyProduct(call, workspace);
  if (call.dtype == DType::kFloat32) return Float32Gemm(call, workspace);
  return WidensOperands(call.dtype, call.k) ? WidenedGemm(call, workspace)
                                            : Bf16Matmul(call, workspace);
}

absl::Status Gemm(const GemmCall& call, CpuKernels& kernels) {
  return kernels.any_team() ? TeamGemm(call, kernels.gemm_workspace())
                            : OneDnnGemm(call, kernels.gemm_workspace());
}

namespace {

const OnCpu<Gemm> gemm;

absl::Status BiasGradient(const BiasGradientCall& call, CpuKernels& kernels) {
  return ColumnSum(call.rows, call.cols, call.stride, call.dtype, call.dy, call.accumulate,
                   call.grad_dtype, call.dbias, kernels.workspace());
}
const OnCpu<BiasGradient> bias_gradient;

}  // namespace
}  // namespace zeroth::cpu
