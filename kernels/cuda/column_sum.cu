// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/column_pieces.h"
#include "zeroth/kernels/cuda/column_sum.h"
#include "zeroth/kernels/cuda/dispatch.h"

namespace zeroth::cuda {
namespace {

template <int N, typename T>
struct Plain {
  const T* x;
  int64_t stride;
  __device__ __forceinline__ void operator()(int64_t row, int64_t column,
                                             float (&sums)[1][N]) const {
    float value[N];
    LoadPack<N>(x + row * stride + column, value);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[0][i] = __fadd_rn(sums[0][i], value[i]);
  }
};

// A block adds the pieces of 32 columns. Each of its eight warps adds every eighth piece.
template <typename T>
__global__ void __launch_bounds__(kColumnThreads* kRowThreads)
    AddPieces(int64_t pieces, int64_t columns, const float* partial, bool accumulate, T* out) {
  ZEROTH_SHARED(float, shared, [kRowThreads * kColumnThreads]);
  const int64_t column = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x;
  float sum = 0.0f;
  if (column < columns) {
    // 16 loads in flight hide the latency.
#pragma unroll 16
    for (int64_t piece = threadIdx.y; piece < pieces; piece += kRowThreads) {
      sum = __fadd_rn(sum, partial[piece * columns + column]);
    }
  }
  shared[threadIdx.y * kColumnThreads + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
#pragma unroll
  for (int i = 1; i < kRowThreads; ++i) {
    sum = __fadd_rn(sum, shared[i * kColumnThreads + threadIdx.x]);
  }
  out[column] = FromFloat<T>(accumulate ? __fadd_rn(ToFloat(out[column]), sum) : sum);
}

}  // namespace

absl::Status SumPieces(int64_t pieces, int64_t columns, const float* partial, bool accumulate,
                       DType out_dtype, void* out, const LaunchTarget& target) {
  return DispatchType(out_dtype, [&]<typename T>(TypeTag<T>) {
    const LaunchShape shape = {
        dim3(static_cast<unsigned>((columns + kColumnThreads - 1) / kColumnThreads)),
        dim3(kColumnThreads, kRowThreads)};
    return ZEROTH_LAUNCH(AddPieces<T>, shape, target.stream, pieces, columns, partial, accumulate,
                         static_cast<T*>(out));
  });
}

absl::Status ColumnSum(int64_t rows, int64_t columns, int64_t stride, DType dtype, const void* x,
                       bool accumulate, DType out_dtype, void* out, float* scratch,
                       const LaunchTarget& target) {
  const absl::Status pieces = DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    const auto* from = static_cast<const T*>(x);
    constexpr int kWidth = kPackWidth<T>;
    const bool packed = columns % kWidth == 0 && stride % kWidth == 0 && ArePacked(from);
    return DispatchWidth<kWidth>(packed, [&](auto width) {
      return ColumnPieces<1, width()>(rows, columns, Plain<width(), T>{from, stride}, scratch,
                                      target);
    });
  });
  if (!pieces.ok()) return pieces;
  return SumPieces(RowPieces(rows), columns, scratch, accumulate, out_dtype, out, target);
}

}  // namespace zeroth::cuda
