// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/moe/moe.h"

namespace zeroth::cuda {
namespace {

// Products by tiles of kTile x kTile elements, one a thread, of operands that pass through shared
// memory. Nobody on the host knows how many rows an expert has, so the grid has a row of tiles for
// each that there may be, and blocks find their expert.
constexpr int kTile = 16;
constexpr int64_t kMostExperts = 128;  // of a launch, whose parameters must hold their addresses

struct GroupedGemmParams {
  int64_t n, k, lda, ldb, ldc;
  bool transpose_b;
  bool accumulate;
  const int32_t* offsets;  // of the launch's first expert
  int experts;
  int column_tiles;
  const void* a;
  void* c;
  const void* b[kMostExperts];
};

struct GroupedGradientParams {
  int64_t m, n, lda, ldb, ldc;
  const int32_t* offsets;
  int column_tiles;
  int tiles;  // of an expert
  const void* a;
  const void* b;
  void* c[kMostExperts];
  bool accumulate[kMostExperts];
};
static_assert(sizeof(GroupedGemmParams) <= kKernelParameterBytes);
static_assert(sizeof(GroupedGradientParams) <= kKernelParameterBytes);

// One tile of operands to shared memory; `load_a(row, depth)` and `load_b(depth, column)` give
// zeros outside.
template <typename LoadA, typename LoadB>
__device__ __forceinline__ float TileProduct(int64_t depths, const LoadA& load_a,
                                             const LoadB& load_b) {
  ZEROTH_SHARED(float, a_tile, [kTile * (kTile + 1)]);
  ZEROTH_SHARED(float, b_tile, [kTile * (kTile + 1)]);
  const auto x = static_cast<int>(threadIdx.x);
  const auto y = static_cast<int>(threadIdx.y);
  float sum = 0.0f;
  for (int64_t depth = 0; depth < depths; depth += kTile) {
    a_tile[y * (kTile + 1) + x] = load_a(depth + x);
    b_tile[y * (kTile + 1) + x] = load_b(depth + y);
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      sum = __fmaf_rn(a_tile[y * (kTile + 1) + i], b_tile[i * (kTile + 1) + x], sum);
    }
    __syncthreads();
  }
  return sum;
}

template <typename T, typename C>
__global__ void __launch_bounds__(kTile* kTile) GroupedGemmKernel(GroupedGemmParams p) {
  int tile = static_cast<int>(blockIdx.x) / p.column_tiles;
  int expert = 0;
  for (; expert < p.experts; ++expert) {
    const int tiles = (p.offsets[expert + 1] - p.offsets[expert] + kTile - 1) / kTile;
    if (tile < tiles) break;
    tile -= tiles;
  }
  if (expert == p.experts) return;
  const int64_t row = p.offsets[expert] + tile * kTile + static_cast<int>(threadIdx.y);
  const int64_t column =
      static_cast<int>(blockIdx.x) % p.column_tiles * kTile + static_cast<int>(threadIdx.x);
  const bool has_row = row < p.offsets[expert + 1];
  const T* const a = static_cast<const T*>(p.a);
  const T* const b = static_cast<const T*>(p.b[expert]);
  const float sum = TileProduct(
      p.k,
      [&](int64_t depth) {
        return has_row && depth < p.k ? ToFloat(a[row * p.lda + depth]) : 0.0f;
      },
      [&](int64_t depth) {
        if (depth >= p.k || column >= p.n) return 0.0f;
        return ToFloat(p.transpose_b ? b[column * p.ldb + depth] : b[depth * p.ldb + column]);
      });
  if (!has_row || column >= p.n) return;
  C* const c = static_cast<C*>(p.c) + row * p.ldc + column;
  *c = FromFloat<C>(p.accumulate ? __fadd_rn(ToFloat(*c), sum) : sum);
}

template <typename T, typename C>
__global__ void __launch_bounds__(kTile* kTile) GroupedGradientKernel(GroupedGradientParams p) {
  const int expert = static_cast<int>(blockIdx.x) / p.tiles;
  const int tile = static_cast<int>(blockIdx.x) % p.tiles;
  const int64_t row = tile / p.column_tiles * kTile + static_cast<int>(threadIdx.y);
  const int64_t column = tile % p.column_tiles * kTile + static_cast<int>(threadIdx.x);
  const int64_t first = p.offsets[expert];
  const int64_t count = p.offsets[expert + 1] - first;
  const T* const a = static_cast<const T*>(p.a) + first * p.lda;
  const T* const b = static_cast<const T*>(p.b) + first * p.ldb;
  const float sum = TileProduct(
      count,
      [&](int64_t depth) {
        return row < p.m && depth < count ? ToFloat(a[depth * p.lda + row]) : 0.0f;
      },
      [&](int64_t depth) {
        return column < p.n && depth < count ? ToFloat(b[depth * p.ldb + column]) : 0.0f;
      });
  if (row >= p.m || column >= p.n) return;
  C* const c = static_cast<C*>(p.c[expert]) + row * p.ldc + column;
  *c = FromFloat<C>(p.accumulate[expert] ? __fadd_rn(ToFloat(*c), sum) : sum);
}

int64_t TilesOf(int64_t size) { return (size + kTile - 1) / kTile; }

absl::Status GroupedGemm(const GroupedGemmCall& call, CudaKernels& kernels) {
  if (call.rows == 0 || call.n == 0) return absl::OkStatus();
  const auto experts = static_cast<int64_t>(call.b.size());
  for (int64_t first = 0; first < experts; first += kMostExperts) {
    const int64_t count = std::min(kMostExperts, experts - first);
    GroupedGemmParams p = {};
    p.n = call.n;
    p.k = call.k;
    p.lda = call.lda;
    p.ldb = call.ldb;
    p.ldc = call.ldc;
    p.transpose_b = call.transpose_b;
    p.accumulate = call.accumulate;
    p.offsets = call.offsets + first;
    p.experts = static_cast<int>(count);
    p.column_tiles = static_cast<int>(TilesOf(call.n));
    p.a = call.a;
    p.c = call.c;
    std::copy_n(call.b.begin() + first, count, p.b);
    // Each expert's last tile may be begun and not filled.
    const int64_t row_tiles = call.rows / kTile + std::min(count, call.rows);
    const LaunchShape shape = {dim3(static_cast<unsigned>(row_tiles * p.column_tiles)),
                               dim3(kTile, kTile)};
    ZEROTH_RETURN_IF_ERROR(DispatchPair(call.dtype, call.c_dtype, [&](auto tag, auto c_tag) {
      return ZEROTH_LAUNCH(
          (GroupedGemmKernel<typename decltype(tag)::type, typename decltype(c_tag)::type>), shape,
          kernels.target().stream, p);
    }));
  }
  return absl::OkStatus();
}
const OnCuda<GroupedGemm> grouped_gemm;

absl::Status GroupedGradient(const GroupedGradientCall& call, CudaKernels& kernels) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  const auto experts = static_cast<int64_t>(call.c.size());
  for (int64_t first = 0; first < experts; first += kMostExperts) {
    const int64_t count = std::min(kMostExperts, experts - first);
    GroupedGradientParams p = {};
    p.m = call.m;
    p.n = call.n;
    p.lda = call.lda;
    p.ldb = call.ldb;
    p.ldc = call.ldc;
    p.offsets = call.offsets + first;
    p.column_tiles = static_cast<int>(TilesOf(call.n));
    p.tiles = p.column_tiles * static_cast<int>(TilesOf(call.m));
    p.a = call.a;
    p.b = call.b;
    for (int64_t e = 0; e < count; ++e) {
      p.c[e] = call.c[static_cast<size_t>(first + e)].c;
      p.accumulate[e] = call.c[static_cast<size_t>(first + e)].accumulate;
    }
    const LaunchShape shape = {dim3(static_cast<unsigned>(count * p.tiles)), dim3(kTile, kTile)};
    ZEROTH_RETURN_IF_ERROR(DispatchPair(call.dtype, call.c_dtype, [&](auto tag, auto c_tag) {
      return ZEROTH_LAUNCH(
          (GroupedGradientKernel<typename decltype(tag)::type, typename decltype(c_tag)::type>),
          shape, kernels.target().stream, p);
    }));
  }
  return absl::OkStatus();
}
const OnCuda<GroupedGradient> grouped_gradient;

}  // namespace
}  // namespace zeroth::cuda
