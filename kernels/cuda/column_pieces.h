// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The first stage of sums over rows; device code.

#ifndef ZEROTH_KERNELS_CUDA_COLUMN_PIECES_H_
#define ZEROTH_KERNELS_CUDA_COLUMN_PIECES_H_

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// A block sums 32 columns of a piece. Each of its eight warps reads 32 neighbouring columns of
// every eighth row.
inline constexpr int kColumnThreads = 32;
inline constexpr int kRowThreads = 8;

// partial[(sum * pieces + piece) * columns + column] = the sums that `add(row, column, sums)`
// accumulates over the piece's rows.
template <int kSums, typename AddRow>
__global__ void __launch_bounds__(kColumnThreads* kRowThreads)
    ColumnPiecesKernel(int64_t rows, int64_t columns, AddRow add, float* partial) {
  ZEROTH_SHARED(float, shared, [kSums * kRowThreads * kColumnThreads]);
  const int64_t pieces = gridDim.y;
  const int64_t piece = blockIdx.y;
  const int64_t begin = rows * piece / pieces;
  const int64_t end = rows * (piece + 1) / pieces;
  const int64_t column = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  float sums[kSums] = {};
  if (column < columns) {
    for (int64_t row = begin + threadIdx.y; row < end; row += kRowThreads) add(row, column, sums);
  }
#pragma unroll
  for (int s = 0; s < kSums; ++s) {
    shared[(s * kRowThreads + threadIdx.y) * kColumnThreads + threadIdx.x] = sums[s];
  }
  __syncthreads();
  if (threadIdx.y >= kSums || column >= columns) return;
  const int s = static_cast<int>(threadIdx.y);
  float sum = 0.0f;
  for (int i = 0; i < kRowThreads; ++i) {
    sum = __fadd_rn(sum, shared[(s * kRowThreads + i) * kColumnThreads + threadIdx.x]);
  }
  partial[(s * pieces + piece) * columns + column] = sum;
}

// Enqueues ColumnPiecesKernel for RowPieces(rows) pieces.
template <int kSums, typename AddRow>
absl::Status ColumnPieces(int64_t rows, int64_t columns, AddRow add, float* partial,
                          const LaunchTarget& target) {
  static_assert(kSums <= kRowThreads);
  const LaunchShape shape = {
      dim3(static_cast<unsigned>((columns + kColumnThreads - 1) / kColumnThreads),
           static_cast<unsigned>(RowPieces(rows))),
      dim3(kColumnThreads, kRowThreads)};
  return ZEROTH_LAUNCH((ColumnPiecesKernel<kSums, AddRow>), shape, target.stream, rows, columns,
                       add, partial);
}

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_COLUMN_PIECES_H_
