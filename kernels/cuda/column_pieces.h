// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The first stage of sums over rows: sums pieces of the rows. Device code.

#pragma once

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// A block sums 32 packs of columns of a piece. Each of its eight warps reads every eighth row.
inline constexpr int kColumnThreads = 32;
inline constexpr int kRowThreads = 8;

// partial[(sum * pieces + piece) * columns + column] = the sums that `add(row, column, sums)`
// accumulates over the piece's rows, for N columns from `column` on.
template <int kSums, int N, typename AddRow>
__global__ void __launch_bounds__(kColumnThreads* kRowThreads)
    ColumnPiecesKernel(int64_t rows, int64_t columns, AddRow add, float* partial) {
  constexpr int kColumns = kColumnThreads * N;
  ZEROTH_SHARED(float, shared, [kSums * kRowThreads * kColumns]);
  const int64_t pieces = gridDim.y;
  const int64_t piece = blockIdx.y;
  const int64_t begin = rows * piece / pieces;
  const int64_t end = rows * (piece + 1) / pieces;
  const int64_t first = int64_t{blockIdx.x} * kColumns;
  const int64_t column = first + threadIdx.x * N;
  float sums[kSums][N] = {};
  if (column < columns) {
#pragma unroll 4
    for (int64_t row = begin + threadIdx.y; row < end; row += kRowThreads) add(row, column, sums);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    StorePack<N>(sums[s], shared + (s * kRowThreads + threadIdx.y) * kColumns + threadIdx.x * N);
  }
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.y) * kColumnThreads + static_cast<int>(threadIdx.x);
  for (int i = thread; i < kSums * kColumns; i += kColumnThreads * kRowThreads) {
    const int s = i / kColumns;
    const int c = i % kColumns;
    if (first + c >= columns) continue;
    float sum = 0.0f;
#pragma unroll
    for (int r = 0; r < kRowThreads; ++r) {
      sum = __fadd_rn(sum, shared[(s * kRowThreads + r) * kColumns + c]);
    }
    partial[(s * pieces + piece) * columns + first + c] = sum;
  }
}

// Enqueues ColumnPiecesKernel for RowPieces(rows) pieces. `columns` is a multiple of N.
template <int kSums, int N, typename AddRow>
absl::Status ColumnPieces(int64_t rows, int64_t columns, AddRow add, float* partial,
                          const LaunchTarget& target) {
  constexpr int kColumns = kColumnThreads * N;
  const LaunchShape shape = {dim3(static_cast<unsigned>((columns + kColumns - 1) / kColumns),
                                  static_cast<unsigned>(RowPieces(rows))),
                             dim3(kColumnThreads, kRowThreads)};
  return ZEROTH_LAUNCH((ColumnPiecesKernel<kSums, N, AddRow>), shape, target.stream, rows, columns,
                       add, partial);
}

}  // namespace zeroth::cuda
