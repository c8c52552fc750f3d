// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/gemm/gemm_cpu.h"

#include <algorithm>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/gemm/bf16_matmul.h"
#include "zeroth/kernels/gemm/bf16_products.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"
#include "zeroth/kernels/gemm/gemm_epilogue.h"
#include "zeroth/kernels/gemm/sgemm.h"
#include "zeroth/kernels/gemm/team_gemm.h"
#include "zeroth/kernels/gemm/widened_gemm.h"

namespace zeroth::cpu {
namespace {

// Sums of fp32 products on their way into a 16-bit c.
constexpr int64_t kBlock = 1024;

// A product without terms: zeros, which bias and activation still apply to.
absl::Status EmptyProduct(const GemmCall& call, Workspace& workspace) {
  ZEROTH_ASSIGN_OR_RETURN(float* zeros, workspace.ReserveFloats(call.n));
  std::fill_n(zeros, call.n, 0.0f);
  FinishProduct(call.m, call.n, zeros, 0, EpilogueOf(call));
  return absl::OkStatus();
}

absl::Status Float32Gemm(const GemmCall& call, Workspace& workspace) {
  const GemmEpilogue epilogue = EpilogueOf(call);
  if (call.c_dtype == DType::kFloat32) {
    ZEROTH_RETURN_IF_ERROR(Sgemm(call));
    if (!call.accumulate && !epilogue.IsPlain())
      FinishProduct(call.m, call.n, static_cast<const float*>(call.c), call.ldc, epilogue);
    return absl::OkStatus();
  }
  const int64_t max_m = std::min(kBlock, call.m);
  const int64_t max_n = std::min(kBlock, call.n);
  ZEROTH_ASSIGN_OR_RETURN(float* product, workspace.ReserveFloats(max_m * max_n));
  return ForEachBlock(call, max_m, max_n, [&](const GemmBlock& block) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(Sgemm(ProductOfBlock(call, block, product)));
    FinishProduct(block.m, block.n, product, block.n, epilogue.At(block.row, block.column));
    return absl::OkStatus();
  });
}

}  // namespace

absl::Status Gemm(const GemmCall& call, Workspace& workspace) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  if (call.k == 0) return EmptyProduct(call, workspace);
  if (call.any_team) return TeamGemm(call, workspace, Gemm);
  if (call.dtype == DType::kFloat32) return Float32Gemm(call, workspace);
  // This oneDNN multiplies no fp16 on CPUs.
  const bool native =
      call.dtype == DType::kBFloat16 && FastestBf16Products(call.k) == Bf16Products::kNative;
  return native ? Bf16Matmul(call, workspace) : WidenedGemm(call, workspace);
}

namespace {

absl::Status RunGemm(const GemmCall& call, CpuKernels& kernels) {
  GemmCall product = call;
  product.any_team = kernels.any_team();
  return Gemm(product, kernels.gemm_workspace());
}
const OnCpu<RunGemm> gemm;

absl::Status BiasGradient(const BiasGradientCall& call, CpuKernels& kernels) {
  return ColumnSum(call.rows, call.cols, call.stride, call.dtype, call.dy, call.accumulate,
                   call.grad_dtype, call.dbias, kernels.workspace());
}
const OnCpu<BiasGradient> bias_gradient;

}  // namespace
}  // namespace zeroth::cpu
