// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/moe/grouped_tiles.h"
#include "zeroth/kernels/moe/moe.h"

namespace zeroth::cuda {
namespace {

// The host does not know how many rows an expert has. The grid therefore has as many rows of tiles
// as there may be, and each block finds its expert.
constexpr size_t kMostExperts = 128;  // of a launch, limited by the addresses in its parameters

struct GroupedParams {
  int64_t n, lda, ldb, ldc;
  const int32_t* offsets;  // of the launch's first expert
  int experts;
  int column_tiles;
  const void* a;
};

struct GroupedGemmParams : GroupedParams {
  int64_t k;
  bool accumulate;
  bool has_biases;
  void* c;
  const void* b[kMostExperts];
  const void* biases[kMostExperts];
};

struct GroupedGradientParams : GroupedParams {
  int64_t m;
  int tiles;  // of an expert
  const void* b;
  void* c[kMostExperts];
  bool accumulate[kMostExperts];
};
static_assert(sizeof(GroupedGemmParams) <= kKernelParameterBytes);
static_assert(sizeof(GroupedGradientParams) <= kKernelParameterBytes);

template <typename T, typename C, typename Tiles, bool kTransposeB>
__global__ void __launch_bounds__(Tiles::kThreads) GroupedGemmKernel(GroupedGemmParams p) {
  int tile = static_cast<int>(blockIdx.x) / p.column_tiles;
  int expert = 0;
  for (; expert < p.experts; ++expert) {
    const int count = p.offsets[expert + 1] - p.offsets[expert];
    const int tiles = (count + Tiles::kRows - 1) / Tiles::kRows;
    if (tile < tiles) break;
    tile -= tiles;
  }
  if (expert == p.experts) return;
  const int64_t first = p.offsets[expert];
  const GroupedOperand<T, false> a = {static_cast<const T*>(p.a) + first * p.lda, p.lda,
                                      p.offsets[expert + 1] - first};
  const GroupedOperand<T, !kTransposeB> b = {static_cast<const T*>(p.b[expert]), p.ldb, p.n};
  C* const c = static_cast<C*>(p.c) + first * p.ldc;
  const T* const bias = p.has_biases ? static_cast<const T*>(p.biases[expert]) : nullptr;
  const int column_tile = static_cast<int>(blockIdx.x) % p.column_tiles;
  Tiles::Multiply(a, b, int64_t{tile} * Tiles::kRows, int64_t{column_tile} * Tiles::kColumns, p.k,
                  [&](int64_t row, int64_t column, float sum) {
                    C* const to = c + row * p.ldc + column;
                    if (bias != nullptr) sum = __fadd_rn(sum, ToFloat(bias[column]));
                    *to = FromFloat<C>(p.accumulate ? __fadd_rn(ToFloat(*to), sum) : sum);
                  });
}

template <typename T, typename C, typename Tiles>
__global__ void __launch_bounds__(Tiles::kThreads) GroupedGradientKernel(GroupedGradientParams p) {
  const int expert = static_cast<int>(blockIdx.x) / p.tiles;
  const int tile = static_cast<int>(blockIdx.x) % p.tiles;
  const int64_t first = p.offsets[expert];
  const GroupedOperand<T, true> a = {static_cast<const T*>(p.a) + first * p.lda, p.lda, p.m};
  const GroupedOperand<T, true> b = {static_cast<const T*>(p.b) + first * p.ldb, p.ldb, p.n};
  C* const c = static_cast<C*>(p.c[expert]);
  const bool accumulate = p.accumulate[expert];
  Tiles::Multiply(a, b, int64_t{tile / p.column_tiles} * Tiles::kRows,
                  int64_t{tile % p.column_tiles} * Tiles::kColumns, p.offsets[expert + 1] - first,
                  [&](int64_t row, int64_t column, float sum) {
                    C* const to = c + row * p.ldc + column;
                    *to = FromFloat<C>(accumulate ? __fadd_rn(ToFloat(*to), sum) : sum);
                  });
}

int64_t TilesOf(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

bool ArePacks(std::initializer_list<int64_t> sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size % 8 == 0; });
}

template <typename T, typename C, typename Tiles>
absl::Status Launch(GroupedGemmParams p, const GroupedGemmCall& call, cudaStream_t stream) {
  p.column_tiles = static_cast<int>(TilesOf(p.n, Tiles::kColumns));
  // The last tile of each expert may be partial.
  const int64_t row_tiles = call.rows / Tiles::kRows + std::min<int64_t>(p.experts, call.rows);
  const LaunchShape shape = Blocks(row_tiles * p.column_tiles, Tiles::kThreads);
  return call.transpose_b
             ? ZEROTH_LAUNCH((GroupedGemmKernel<T, C, Tiles, true>), shape, stream, p)
             : ZEROTH_LAUNCH((GroupedGemmKernel<T, C, Tiles, false>), shape, stream, p);
}

template <typename T, typename C, typename Tiles>
absl::Status Launch(GroupedGradientParams p, const GroupedGradientCall&, cudaStream_t stream) {
  p.column_tiles = static_cast<int>(TilesOf(p.n, Tiles::kColumns));
  p.tiles = p.column_tiles * static_cast<int>(TilesOf(p.m, Tiles::kRows));
  const LaunchShape shape = Blocks(int64_t{p.experts} * p.tiles, Tiles::kThreads);
  return ZEROTH_LAUNCH((GroupedGradientKernel<T, C, Tiles>), shape, stream, p);
}

// Launches a grouped matmul of `experts` matrices, kMostExperts at a time; `offsets` are those of
// the first one. fill(first, params) sets the fields that Params adds to GroupedParams, for the
// launch whose first expert is `first`.
// MmaTiles compute 16-bit floats that they can load (`packed`), and PlainTiles all other calls. The
// choice depends on sizes alone and not on the strategy, because every layout aligns parameters to
// 64 bytes.
template <typename Params, typename Call, typename Fill>
absl::Status LaunchAll(const Call& call, const int32_t* offsets, size_t experts, bool packed,
                       const Fill& fill, cudaStream_t stream) {
  for (size_t first = 0; first < experts; first += kMostExperts) {
    Params p = {};
    p.n = call.n;
    p.lda = call.lda;
    p.ldb = call.ldb;
    p.ldc = call.ldc;
    p.offsets = offsets + first;
    p.experts = static_cast<int>(std::min(kMostExperts, experts - first));
    p.a = call.a;
    fill(first, p);
    ZEROTH_RETURN_IF_ERROR(
        DispatchPair(call.dtype, call.c_dtype, [&]<typename T, typename C>(TypeTag<T>, TypeTag<C>) {
          if constexpr (!std::is_same_v<T, float>) {
            if (packed) return Launch<T, C, MmaTiles<T>>(p, call, stream);
          }
          return Launch<T, C, PlainTiles<T>>(p, call, stream);
        }));
  }
  return absl::OkStatus();
}

absl::Status GroupedGemm(const GroupedGemmCall& call, CudaKernels& kernels) {
  if (call.rows == 0 || call.n == 0) return absl::OkStatus();
  const bool packed = ArePacked(call.a) &&
                      ArePacks({call.k, call.lda, call.ldb, call.transpose_b ? 8 : call.n}) &&
                      std::all_of(call.b.begin(), call.b.end(), ArePacked<void>);
  const auto fill = [&](size_t first, GroupedGemmParams& p) {
    p.k = call.k;
    p.accumulate = call.accumulate;
    p.c = call.c;
    std::copy_n(&call.b[first], p.experts, p.b);
    p.has_biases = !call.biases.empty();
    if (p.has_biases) std::copy_n(&call.biases[first], p.experts, p.biases);
  };
  return LaunchAll<GroupedGemmParams>(call, call.offsets + call.first, call.b.size(), packed, fill,
                                      kernels.target().stream);
}
const OnCuda<GroupedGemm> grouped_gemm;

absl::Status GroupedGradient(const GroupedGradientCall& call, CudaKernels& kernels) {
  if (call.m == 0 || call.n == 0) return absl::OkStatus();
  const bool packed = ArePacked(call.a, call.b) && ArePacks({call.m, call.n, call.lda, call.ldb});
  const auto fill = [&](size_t first, GroupedGradientParams& p) {
    p.m = call.m;
    p.b = call.b;
    for (int e = 0; e < p.experts; ++e) {
      const auto& [c, accumulate] = call.c[first + static_cast<size_t>(e)];
      p.c[e] = c;
      p.accumulate[e] = accumulate;
    }
  };
  return LaunchAll<GroupedGradientParams>(call, call.offsets, call.c.size(), packed, fill,
                                          kernels.target().stream);
}
const OnCuda<GroupedGradient> grouped_gradient;

}  // namespace
}  // namespace zeroth::cuda
