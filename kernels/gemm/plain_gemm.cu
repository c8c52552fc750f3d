// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/activation/activation_device.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/gemm/plain_gemm.h"

namespace zeroth::cuda {
namespace {

constexpr int kTile = 16;

__device__ __forceinline__ float Activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kGelu:
      return GeluOf(x);
    case Activation::kSilu:
      return SiluOf(x);
    case Activation::kNone:
      break;
  }
  return x;
}

// Applies the epilogue to an element of op(a) op(b) and stores it in c.
template <typename T, typename C>
__device__ __forceinline__ void StoreElement(const GemmCall& call, int64_t row, int64_t column,
                                             float sum) {
  C* const c = static_cast<C*>(call.c) + row * call.ldc + column;
  const int64_t beside = row * call.n + column;
  if (call.accumulate) sum = __fadd_rn(ToFloat(*c), sum);
  if (call.bias != nullptr) sum = __fadd_rn(sum, ToFloat(static_cast<const T*>(call.bias)[column]));
  if (call.pre_activation != nullptr) {
    static_cast<C*>(call.pre_activation)[beside] = FromFloat<C>(sum);
  }
  if (call.gelu_input != nullptr) {
    sum *= GeluSlope(ToFloat(static_cast<const C*>(call.gelu_input)[beside]));
  }
  *c = FromFloat<C>(Activate(call.activation, sum));
}

// A block computes a tile of c, and a thread one element. Tiles of a and b pass through shared
// memory.
template <typename T, typename C>
__global__ void __launch_bounds__(kTile* kTile)
    PlainGemmKernel(GemmCall call, int64_t column_tiles) {
  ZEROTH_SHARED(float, a_tile, [kTile * (kTile + 1)]);
  ZEROTH_SHARED(float, b_tile, [kTile * (kTile + 1)]);
  const T* const a = static_cast<const T*>(call.a);
  const T* const b = static_cast<const T*>(call.b);
  const int64_t row = blockIdx.x / column_tiles * kTile + threadIdx.y;
  const int64_t column = blockIdx.x % column_tiles * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int64_t depth = 0; depth < call.k; depth += kTile) {
    const int64_t a_depth = depth + threadIdx.x;
    const int64_t b_depth = depth + threadIdx.y;
    const int own = static_cast<int>(threadIdx.y * (kTile + 1) + threadIdx.x);
    a_tile[own] =
        row < call.m && a_depth < call.k
            ? ToFloat(call.transpose_a ? a[a_depth * call.lda + row] : a[row * call.lda + a_depth])
            : 0.0f;
    b_tile[own] = column < call.n && b_depth < call.k
                      ? ToFloat(call.transpose_b ? b[column * call.ldb + b_depth]
                                                 : b[b_depth * call.ldb + column])
                      : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) {
      sum = __fmaf_rn(a_tile[threadIdx.y * (kTile + 1) + i], b_tile[i * (kTile + 1) + threadIdx.x],
                      sum);
    }
    __syncthreads();
  }
  if (row < call.m && column < call.n) StoreElement<T, C>(call, row, column, sum);
}

template <typename T, typename C>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    EpilogueKernel(GemmCall call, int64_t begin, int64_t elements, const float* product) {
  for (const int64_t i : ItemsOfThread(elements)) {
    StoreElement<T, C>(call, begin + i / call.n, i % call.n, product[i]);
  }
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    CopyRowsKernel(int64_t elements, int64_t columns, const T* from, int64_t from_ld, T* to,
                   int64_t to_ld) {
  for (const int64_t i : ItemsOfThread(elements)) {
    to[i / columns * to_ld + i % columns] = from[i / columns * from_ld + i % columns];
  }
}

}  // namespace

absl::Status PlainGemm(const GemmCall& call, const LaunchTarget& target) {
  const auto tiles = [](int64_t size) { return (size + kTile - 1) / kTile; };
  const int64_t column_tiles = tiles(call.n);
  const LaunchShape shape = {dim3(static_cast<unsigned>(tiles(call.m) * column_tiles)),
                             dim3(kTile, kTile)};
  return DispatchPair(
      call.dtype, call.c_dtype, [&]<typename T, typename C>(TypeTag<T>, TypeTag<C>) {
        return ZEROTH_LAUNCH((PlainGemmKernel<T, C>), shape, target.stream, call, column_tiles);
      });
}

absl::Status ApplyEpilogue(const GemmCall& call, int64_t begin, int64_t rows, const float* product,
                           const LaunchTarget& target) {
  const int64_t elements = rows * call.n;
  return DispatchPair(
      call.dtype, call.c_dtype, [&]<typename T, typename C>(TypeTag<T>, TypeTag<C>) {
        return ZEROTH_MAP((EpilogueKernel<T, C>), elements, target, call, begin, elements, product);
      });
}

absl::Status CopyRows(int64_t rows, int64_t columns, DType dtype, const void* from, int64_t from_ld,
                      void* to, int64_t to_ld, const LaunchTarget& target) {
  const int64_t elements = rows * columns;
  return DispatchType(dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP((CopyRowsKernel<T>), elements, target, elements, columns,
                      static_cast<const T*>(from), from_ld, static_cast<T*>(to), to_ld);
  });
}

}  // namespace zeroth::cuda
