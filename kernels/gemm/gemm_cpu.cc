// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/gemm/gemm_cpu.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "dnnl.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/column_sum.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/gemm/gemm_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/activation/activation-inl.h"
#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <Activation kActivation, class D, class V>
HWY_INLINE V Activate(D d, V x) {
  if constexpr (kActivation == Activation::kGelu) {
    return GeluOf(d, x);
  } else if constexpr (kActivation == Activation::kSilu) {
    return SiluOf(d, x);
  } else {
    return x;
  }
}

template <Activation kActivation, typename Bias, typename C>
void ActivateRow(size_t n, const float* product, const Bias* bias, C* pre_activation, C* c) {
  ForVectors(n, [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    auto x = LoadLanes<whole()>(d, product + i, count);
    if (bias != nullptr) x = hn::Add(x, LoadLanes<whole()>(d, bias + i, count));
    if (pre_activation != nullptr) StoreLanes<whole()>(x, d, pre_activation + i, count);
    StoreLanes<whole()>(Activate<kActivation>(d, x), d, c + i, count);
  });
}

template <typename C>
void AccumulateRow(size_t n, const float* product, C* c) {
  ForVectors(n, [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    const auto old = LoadLanes<whole()>(d, c + i, count);
    StoreLanes<whole()>(hn::Add(old, LoadLanes<whole()>(d, product + i, count)), d, c + i, count);
  });
}

template <typename C>
void GeluBackwardRow(size_t n, const float* product, const C* gelu_input, C* c) {
  ForVectors(n, [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    const auto slope = GeluSlope(d, LoadLanes<whole()>(d, gelu_input + i, count));
    StoreLanes<whole()>(hn::Mul(LoadLanes<whole()>(d, product + i, count), slope), d, c + i, count);
  });
}

template <typename Bias, typename C>
void FinishRow(size_t n, const float* product, const GemmCall& to) {
  C* c = static_cast<C*>(to.c);
  if (to.accumulate) return AccumulateRow(n, product, c);
  if (to.gelu_input != nullptr)
    return GeluBackwardRow(n, product, static_cast<const C*>(to.gelu_input), c);
  const Bias* bias = static_cast<const Bias*>(to.bias);
  C* pre_activation = static_cast<C*>(to.pre_activation);
  switch (to.activation) {
    case Activation::kNone:
      return ActivateRow<Activation::kNone>(n, product, bias, pre_activation, c);
    case Activation::kGelu:
      return ActivateRow<Activation::kGelu>(n, product, bias, pre_activation, c);
    case Activation::kSilu:
      return ActivateRow<Activation::kSilu>(n, product, bias, pre_activation, c);
  }
}

// Finishes rows [begin, end) of op(a) op(b).
void FinishRows(const GemmCall& call, int64_t begin, int64_t end, const float* product,
                int64_t ld) {
  WithElementTypes(call.dtype, call.c_dtype, [&]<typename Bias, typename C>(Bias, C) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      FinishRow<Bias, C>(static_cast<size_t>(call.n), product + row * ld,
                         BlockOf(call, {row, 0, 1, call.n}));
    }
  });
}

// Widens rows [begin, end) of an operand.
void WidenPiece(int64_t begin, int64_t end, int64_t cols, DType dtype, const void* from, int64_t ld,
                float* to) {
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      Convert(static_cast<size_t>(cols), to + row * cols, static_cast<const T*>(from) + row * ld);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(FinishRows);
HWY_EXPORT(WidenPiece);

void ApplyEpilogue(const GemmCall& call, const float* product, int64_t ld) {
  const auto finish = HWY_DYNAMIC_DISPATCH(FinishRows);
  ParallelFor(call.m, RowGrain(call.n),
              [&](int64_t, int64_t begin, int64_t end) { finish(call, begin, end, product, ld); });
}

void WidenRows(int64_t rows, int64_t cols, DType dtype, const void* from, int64_t ld, float* to) {
  const auto widen = HWY_DYNAMIC_DISPATCH(WidenPiece);
  ParallelFor(rows, RowGrain(cols), [=](int64_t, int64_t begin, int64_t end) {
    widen(begin, end, cols, dtype, from, ld, to);
  });
}

namespace {

// oneDNN requires a stride of at least the width, but a call may give a single row any stride.
int64_t Stride(int64_t stride, int64_t width) { return std::max(stride, width); }

// Side of the blocks in which fp32 results are rounded to a 16-bit c.
constexpr int64_t kBlock = 1024;

// Handles depth 0: op(a) op(b) is zero, and bias and activation still apply.
absl::Status ZeroDepthGemm(const GemmCall& call, Workspace& workspace) {
  ZEROTH_ASSIGN_OR_RETURN(float* zeros, workspace.ReserveFloats(call.n));
  std::fill_n(zeros, call.n, 0.0f);
  ApplyEpilogue(call, zeros, 0);
  return absl::OkStatus();
}

absl::Status Float32Gemm(const GemmCall& call, Workspace& workspace) {
  if (call.c_dtype == DType::kFloat32) {
    ZEROTH_RETURN_IF_ERROR(Sgemm(call));
    if (HasEpilogue(call)) ApplyEpilogue(call, static_cast<const float*>(call.c), call.ldc);
    return absl::OkStatus();
  }
  const int64_t max_m = std::min(kBlock, call.m);
  const int64_t max_n = std::min(kBlock, call.n);
  ZEROTH_ASSIGN_OR_RETURN(float* product, workspace.ReserveFloats(max_m * max_n));
  return ForEachBlock(call, max_m, max_n, [&](const GemmBlock& block) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(Sgemm(MatmulOfBlock(call, block, product)));
    ApplyEpilogue(BlockOf(call, block), product, block.n);
    return absl::OkStatus();
  });
}

// Widening an operand costs as much as about 60 terms of its dot products. With sides of 1024 that
// is about a tenth of the work, and the three blocks fit into a core's share of the last-level
// cache.
constexpr int64_t kWidenedBlock = 1024;

// The sizes of the largest block.
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

// Computes terms [k, k + count) of a block's op(a) op(b). The first terms overwrite the block, and
// later ones are added.
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

// Each tile packs its rows of a and columns of b itself, which costs 1/kTileRows + 1/kTileColumns
// of its multiplications.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileColumns = 512;

// While this exists, parallel regions of the calling thread have one thread.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

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
  return absl::InternalError(absl::StrCat("Gemm: oneDNN refused a matmul of m = ", call.m,
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
    GemmCall part = MatmulOfBlock(call, block, scratch.product);
    const GemmCall to = BlockOf(call, block);
    if (direct) {
      part.c = to.c;
      part.ldc = to.ldc;
      part.accumulate = call.accumulate;
    }
    for (int64_t k = 0; k < call.k; k += max_k) {
      ZEROTH_RETURN_IF_ERROR(AddTerms(call, block, k, std::min(max_k, call.k - k), scratch, part));
    }
    if (!direct) ApplyEpilogue(to, scratch.product, block.n);
    return absl::OkStatus();
  });
}

absl::Status OneDnnGemm(const GemmCall& call, Workspace& workspace) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  if (call.k == 0) return ZeroDepthGemm(call, workspace);
  if (call.dtype == DType::kFloat32) return Float32Gemm(call, workspace);
  return WidensOperands(call.dtype, call.k) ? WidenedGemm(call, workspace)
                                            : Bf16Matmul(call, workspace);
}

absl::Status TeamGemm(const GemmCall& call, Workspace& workspace) {
  const int64_t rows = (call.m + kTileRows - 1) / kTileRows;
  const int64_t tiles = rows * ((call.n + kTileColumns - 1) / kTileColumns);
  // Tiles are computed column by column, so that concurrent threads share columns of b.
  const auto run = [&](int64_t tile, Workspace& own) {
    const int64_t row = tile % rows * kTileRows;
    const int64_t column = tile / rows * kTileColumns;
    return OneDnnGemm(BlockOf(call, {row, column, std::min(kTileRows, call.m - row),
                                     std::min(kTileColumns, call.n - column)}),
                      own);
  };
  const int threads = static_cast<int>(std::min<int64_t>(tiles, omp_get_max_threads()));
  if (threads <= 1) {
    const OneThread one;
    absl::Status status;
    for (int64_t tile = 0; tile < tiles && status.ok(); ++tile) status = run(tile, workspace);
    return status;
  }
  const absl::Span<Workspace> workspaces = workspace.OfThreads(threads);
  std::vector<absl::Status> statuses(static_cast<size_t>(threads));
#pragma omp parallel num_threads(threads)
  {
    const OneThread one;
    const auto self = static_cast<size_t>(omp_get_thread_num());
#pragma omp for schedule(dynamic)
    for (int64_t tile = 0; tile < tiles; ++tile) {
      if (statuses[self].ok()) statuses[self] = run(tile, workspaces[self]);
    }
  }
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
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
#endif  // HWY_ONCE
