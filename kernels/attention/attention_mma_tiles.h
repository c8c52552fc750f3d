// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Building blocks of attention on tensor cores: tiles of a head in shared memory, matmuls of a
// warp's rows with them, and stores. Device code.
//
// Tiles are [rows, kDim] with kMmaStride elements from row to row. mma.h says which row and column
// an accumulator holds.

#pragma once

#include <cstdint>
#include <type_traits>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/attention_plan.h"
#include "zeroth/kernels/cuda/async_copy.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/mma.h"

namespace zeroth::cuda {

// Calls function(TypeTag<T>(), width) for the type, bf16 or fp16, and the width of the plan's
// tiles, an integral constant.
template <typename Function>
absl::Status DispatchTiles(const AttentionPlan& plan, DType dtype, const Function& function) {
  const auto of_type = [&](auto tag) {
    if (plan.width == 64) return function(tag, std::integral_constant<int, 64>());
    if (plan.width == 96) return function(tag, std::integral_constant<int, 96>());
    return function(tag, std::integral_constant<int, 128>());
  };
  return dtype == DType::kBFloat16 ? of_type(TypeTag<bf16>()) : of_type(TypeTag<fp16>());
}

// The rows that a block owns: the first one, the first one of this thread's warp, and their head.
struct OwnedRows {
  int first;
  int of_warp;
  int head;
  int64_t batch;
};
// Returns the rows of this block. The blocks of a head are neighbours, so that their reads share
// the cache. The longest blocks must start first, to leave no long block running alone at the end;
// `last_first` if those have the last rows.
template <typename Tile>
__device__ __forceinline__ OwnedRows RowsOfBlock(int seq, int heads, bool last_first) {
  const int tiles = (seq + Tile::kRows - 1) / Tile::kRows;
  const int tile = static_cast<int>(blockIdx.x % tiles);
  const int first = (last_first ? tiles - 1 - tile : tile) * Tile::kRows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * Tile::kRowTiles;
  return {first, first + warp_row, static_cast<int>(blockIdx.x / tiles % heads),
          blockIdx.x / tiles / heads};
}

// Copies a head's rows to shared memory, a tile at a time. Eight threads share a row of packs of 16
// bytes, or four if eight do not divide it. Each thread then steps down its columns with one
// addition per row, and none has to check whether it has work. Between tiles it keeps only the
// address of the head, because the kernels are short of registers.
template <typename T, int kDim>
class TileCopier {
 public:
  // `head` is the head's address; its tokens are `stride` elements apart.
  __device__ __forceinline__ TileCopier(const T* head, int64_t stride)
      : from_(head + ThreadRow() * stride + ThreadColumn()) {}

  // Begins to copy rows [first, first + kRows) of the head at an offset of `beside` elements from
  // this one, with zeros beyond the sequence and beyond head_dim. All threads of the block must
  // call it.
  template <int kRows>
  __device__ __forceinline__ void Begin(int first, T* tile, int64_t stride, int seq, int head_dim,
                                        int beside = 0) const {
    static_assert(kRows % kRowsAtOnce == 0);
    T* const to = tile + ThreadRow() * kMmaStride<kDim> + ThreadColumn();
    int row = first + ThreadRow();
    const T* from = from_ + (first * stride + beside);
#pragma unroll
    for (int n = 0; n < kRows; n += kRowsAtOnce) {
#pragma unroll
      for (int c = 0; c < kDim; c += kColumnsAtOnce) {
        CopyAsync16(to + n * kMmaStride<kDim> + c, from + c,
                    row < seq && ThreadColumn() + c < head_dim);
      }
      row += kRowsAtOnce;
      from += kRowsAtOnce * stride;
    }
  }

 private:
  static constexpr int kThreadsPerRow = kDim % 64 == 0 ? 8 : 4;
  static constexpr int kRowsAtOnce = kMmaThreads / kThreadsPerRow;
  static constexpr int kColumnsAtOnce = kThreadsPerRow * 8;
  static_assert(kDim % kColumnsAtOnce == 0);
  static __device__ __forceinline__ int ThreadRow() {
    return static_cast<int>(threadIdx.x) / kThreadsPerRow;
  }
  static __device__ __forceinline__ int ThreadColumn() {
    return static_cast<int>(threadIdx.x) % kThreadsPerRow * 8;
  }

  const T* from_;
};

// This lane's ldmatrix address (LoadTiles) for the 16 x 16 elements at `corner` as operand A,
// stored [rows, k].
template <int kDim, typename T>
__device__ __forceinline__ const T* RowsForLane(const T* corner) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return corner + lane % 16 * kMmaStride<kDim> + lane / 16 * 8;
}
// This lane's ldmatrix address for two tiles of operand B, stored [columns, k], so that the matmul
// is with the transpose.
template <int kDim, typename T>
__device__ __forceinline__ const T* ColumnsForLane(const T* corner) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return corner + (lane / 16 * 8 + lane % 8) * kMmaStride<kDim> + lane / 8 % 2 * 8;
}
// For B stored [k, columns], pass RowsForLane to LoadTilesTransposed. Tiles 0 and 1 then are the
// upper and lower half of k in the first 8 columns, and tiles 2 and 3 in the next 8.

// A warp's rows, [kRowTiles * 16, kDim], as A operands, loaded at every step of a matmul or, if
// kHold, once into registers.
template <typename T, int kDim, int kRowTiles, bool kHold>
class RowOperand {
 public:
  // `rows`: address of the warp's first row in shared memory; the tile must already be loaded.
  __device__ __forceinline__ explicit RowOperand(const T* rows) : rows_(RowsForLane<kDim>(rows)) {
    if constexpr (kHold) {
#pragma unroll
      for (int step = 0; step < kDim / 16; ++step) Load(step, held_[step]);
    }
  }
  __device__ __forceinline__ void Get(int step, uint32_t (&a)[kRowTiles][4]) const {
    if constexpr (kHold) {
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[m][i] = held_[step][m][i];
      }
    } else {
      Load(step, a);
    }
  }

 private:
  __device__ __forceinline__ void Load(int step, uint32_t (&a)[kRowTiles][4]) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      LoadTiles(a[m], rows_ + m * 16 * kMmaStride<kDim> + step * 16);
    }
  }

  const T* rows_;
  uint32_t held_[kHold ? kDim / 16 : 1][kRowTiles][4];
};

template <int kRowTiles, int kTiles>
__device__ __forceinline__ void SetZero(float (&sums)[kRowTiles][kTiles][4]) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0f;
    }
  }
}

// scores[16 kRowTiles, kColumns] = rows[.., kDim] tile[kColumns, kDim]^T.
template <typename T, int kDim, int kColumns, int kRowTiles, bool kHold>
__device__ __forceinline__ void ScoreMatmul(const RowOperand<T, kDim, kRowTiles, kHold>& rows,
                                            const T* tile,
                                            float (&scores)[kRowTiles][kColumns / 8][4]) {
  SetZero(scores);
  const T* const columns = ColumnsForLane<kDim>(tile);
// Unrolled fully, a wide head's loads would be moved so far ahead that registers ran out.
#pragma unroll(kHold ? kDim / 16 : 2)
  for (int step = 0; step < kDim / 16; ++step) {
    uint32_t a[kRowTiles][4];
    rows.Get(step, a);
#pragma unroll
    for (int n = 0; n < kColumns / 8; n += 2) {
      uint32_t b[4];
      LoadTiles(b, columns + n * 8 * kMmaStride<kDim> + step * 16);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        MmaM16N16K16<T>(scores[m][n], scores[m][n + 1], a[m], b);
      }
    }
  }
}

// sums[16 kRowTiles, kDim] += weights[.., kInner] tile[kInner, kDim]. `weights` are accumulators
// rounded to T, two to a register: [0] from the upper row, [1] from the lower (mma.h).
template <typename T, int kDim, int kInner, int kRowTiles>
__device__ __forceinline__ void AddWeighted(const uint32_t (&weights)[kRowTiles][kInner / 8][2],
                                            const T* tile, float (&sums)[kRowTiles][kDim / 8][4]) {
  const T* const rows = RowsForLane<kDim>(tile);
#pragma unroll
  for (int step = 0; step < kInner / 16; ++step) {
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      uint32_t b[4];
      LoadTilesTransposed(b, rows + step * 16 * kMmaStride<kDim> + n * 8);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        const uint32_t a[4] = {weights[m][2 * step][0], weights[m][2 * step][1],
                               weights[m][2 * step + 1][0], weights[m][2 * step + 1][1]};
        MmaM16N16K16<T>(sums[m][n], sums[m][n + 1], a, b);
      }
    }
  }
}

// Return the row and the column in the warp's tile of element i of accumulator [m][n].
__device__ __forceinline__ int AccumulatorRow(int m, int i) {
  return m * 16 + static_cast<int>(threadIdx.x) % 32 / 4 + i / 2 * 8;
}
__device__ __forceinline__ int AccumulatorColumn(int n, int i) {
  return n * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % 2;
}

// Stores a warp's sums, each row times its factor[m][half], through shared memory, so that rows are
// stored 16 bytes at a time. `staging` has 16 kRowTiles rows that only this warp uses; `first` is
// the first row's position in the sequence.
template <typename T, int kDim, int kRowTiles>
__device__ __forceinline__ void StoreRows(const float (&sums)[kRowTiles][kDim / 8][4],
                                          const float (&factor)[kRowTiles][2], T* staging, T* head,
                                          int64_t stride, int first, int seq, int head_dim) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t pair = PackPair<T>(sums[m][n][2 * half] * factor[m][half],
                                          sums[m][n][2 * half + 1] * factor[m][half]);
        *reinterpret_cast<uint32_t*>(staging + AccumulatorRow(m, 2 * half) * kMmaStride<kDim> +
                                     AccumulatorColumn(n, 0)) = pair;
      }
    }
  }
  __syncwarp();
  constexpr int kChunks = kDim / 8;
  for (int i = static_cast<int>(threadIdx.x) % 32; i < kRowTiles * 16 * kChunks; i += 32) {
    const int row = i / kChunks;
    const int column = i % kChunks * 8;
    if (first + row >= seq || column >= head_dim) continue;
    *reinterpret_cast<uint4*>(head + (first + row) * stride + column) =
        *reinterpret_cast<const uint4*>(staging + row * kMmaStride<kDim> + column);
  }
}

}  // namespace zeroth::cuda
