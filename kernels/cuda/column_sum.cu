// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/column_pieces.h"
#include "zeroth/kernels/cuda/column_sum.h"
#include "zeroth/kernels/cuda/dispatch.h"

namespace zeroth::cuda {
namespace {

template <typename T>
struct Plain {
  const T* x;
  int64_t stride;
  __device__ void operator()(int64_t row, int64_t column, float (&sums)[1]) const {
    sums[0] = __fadd_rn(sums[0], ToFloat(x[row * stride + column]));
  }
};

template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    AddPieces(int64_t pieces, int64_t columns, const float* partial, bool accumulate, T* out) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float sum = 0.0f;
  // Issues so many loads at once. One load at a time would wait for memory each time.
  constexpr int kLoads = 16;
  int64_t piece = 0;
  for (; piece + kLoads <= pieces; piece += kLoads) {
    float loaded[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) loaded[i] = partial[(piece + i) * columns + column];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) sum = __fadd_rn(sum, loaded[i]);
  }
  for (; piece < pieces; ++piece) sum = __fadd_rn(sum, partial[piece * columns + column]);
  out[column] = FromFloat<T>(accumulate ? __fadd_rn(ToFloat(out[column]), sum) : sum);
}

}  // namespace

absl::Status SumPieces(int64_t pieces, int64_t columns, const float* partial, bool accumulate,
                       DType out_dtype, void* out, const LaunchTarget& target) {
  return DispatchType(out_dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const LaunchShape shape = {
        dim3(static_cast<unsigned>((columns + kMapThreads - 1) / kMapThreads)), dim3(kMapThreads)};
    return ZEROTH_LAUNCH(AddPieces<T>, shape, target.stream, pieces, columns, partial, accumulate,
                         static_cast<T*>(out));
  });
}

absl::Status ColumnSum(int64_t rows, int64_t columns, int64_t stride, DType dtype, const void* x,
                       bool accumulate, DType out_dtype, void* out, float* scratch,
                       const LaunchTarget& target) {
  const absl::Status pieces = DispatchType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ColumnPieces<1>(rows, columns, Plain<T>{static_cast<const T*>(x), stride}, scratch,
                           target);
  });
  if (!pieces.ok()) return pieces;
  return SumPieces(RowPieces(rows), columns, scratch, accumulate, out_dtype, out, target);
}

}  // namespace zeroth::cuda
