// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"
#include "zeroth/kernels/gemm/gemm_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/widened_gemm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Rows [begin, end).
void WidenPiece(int64_t begin, int64_t end, int64_t cols, DType dtype, const void* from, int64_t ld,
                float* to) {
  WithElementType(dtype, [&](auto element) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      Transform(
          static_cast<size_t>(cols), to + row * cols, [](auto, auto v) HWY_ATTR { return v; },
          static_cast<const decltype(element)*>(from) + row * ld);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(WidenPiece);

// Widening an operand costs as much as about 60 terms of its products. With sides of 1024 that is
// about a tenth of the work, and the three blocks fit into a core's share of the last-level cache.
constexpr int64_t kBlock = 1024;

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

void WidenRows(int64_t rows, int64_t cols, DType dtype, const void* from, int64_t ld, float* to) {
  const auto widen = HWY_DYNAMIC_DISPATCH(WidenPiece);
  ParallelFor(rows, RowGrain(cols), [=](int64_t, int64_t begin, int64_t end) {
    widen(begin, end, cols, dtype, from, ld, to);
  });
}

absl::Status WidenedGemm(const GemmCall& call, Workspace& workspace) {
  const int64_t max_m = std::min(kBlock, call.m);
  const int64_t max_n = std::min(kBlock, call.n);
  const int64_t max_k = std::min(kBlock, call.k);
  // An fp32 c without an epilogue holds the partial sums itself.
  const bool direct = call.c_dtype == DType::kFloat32 && !HasEpilogue(call);
  ZEROTH_ASSIGN_OR_RETURN(float* base,
                          workspace.ReserveFloats(max_m * max_k + max_k * max_n + max_m * max_n));
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

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
