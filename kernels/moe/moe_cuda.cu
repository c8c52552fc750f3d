// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Moves and combines the rows of routed tokens. route_cuda.cu routes them.

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/moe/moe.h"

namespace zeroth::cuda {
namespace {

// Each item, a token or a pair, has a warp.
constexpr int kRowWarps = 4;  // of a block

__device__ __forceinline__ int64_t ItemOfWarp() {
  return int64_t{blockIdx.x} * kRowWarps + threadIdx.x / 32;
}

// A warp reads a token's row once, and writes it to the rows of its pairs.
template <int N, typename T>
__global__ void __launch_bounds__(kRowWarps * 32) ScatterRows(ScatterCall call) {
  const int64_t token = ItemOfWarp();
  if (token >= call.tokens) return;
  const T* const from = static_cast<const T*>(call.from) + token * call.dim;
  for (int64_t column = threadIdx.x % 32 * N; column < call.dim; column += 32 * N) {
    float x[N];
    LoadPack<N>(from + column, x);
    for (int64_t pair = token * call.top_k; pair < (token + 1) * call.top_k; ++pair) {
      const float weight = call.weights == nullptr ? 1.0f : call.weights[pair];
      float y[N];
#pragma unroll
      for (int i = 0; i < N; ++i) y[i] = weight * x[i];
      T* const to = static_cast<T*>(call.grouped) + call.rows[pair] * call.dim + column;
      if constexpr (N == 1) {
        StorePack<N>(y, to);
      } else {
        StorePackAtOnce<N>(y, to);
      }
    }
  }
}

absl::Status Scatter(const ScatterCall& call, CudaKernels& kernels) {
  const LaunchShape shape = WarpPerRowShape(call.tokens, kRowWarps);
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    const bool packed = call.dim % kPackWidth<T> == 0 && ArePacked(call.from, call.grouped);
    return DispatchWidth<kPackWidth<T>>(packed, [&](auto width) {
      return ZEROTH_LAUNCH((ScatterRows<width(), T>), shape, kernels.target().stream, call);
    });
  });
}
const OnCuda<Scatter> scatter;

// A warp adds the rows of a token's pairs.
template <int N, typename T>
__global__ void __launch_bounds__(kRowWarps * 32) CombineRows(CombineCall call) {
  const int64_t token = ItemOfWarp();
  if (token >= call.tokens) return;
  T* const to = static_cast<T*>(call.to) + token * call.dim;
  for (int64_t column = threadIdx.x % 32 * N; column < call.dim; column += 32 * N) {
    float sum[N] = {};
    if (call.accumulate) LoadPack<N>(to + column, sum);
#pragma unroll 2
    for (int64_t pair = token * call.top_k; pair < (token + 1) * call.top_k; ++pair) {
      const float weight = call.weights == nullptr ? 1.0f : call.weights[pair];
      float x[N];
      LoadPack<N>(static_cast<const T*>(call.grouped) + call.rows[pair] * call.dim + column, x);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] = __fmaf_rn(weight, x[i], sum[i]);
    }
    StorePack<N>(sum, to + column);
  }
}

absl::Status Combine(const CombineCall& call, CudaKernels& kernels) {
  const LaunchShape shape = WarpPerRowShape(call.tokens, kRowWarps);
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    const bool packed = call.dim % kPackWidth<T> == 0 && ArePacked(call.grouped, call.to);
    return DispatchWidth<kPackWidth<T>>(packed, [&](auto width) {
      return ZEROTH_LAUNCH((CombineRows<width(), T>), shape, kernels.target().stream, call);
    });
  });
}
const OnCuda<Combine> combine;

template <typename T>
__global__ void __launch_bounds__(kRowWarps * 32) DotRows(RowDotsCall call) {
  const int64_t pair = ItemOfWarp();
  if (pair >= call.tokens * call.top_k) return;
  const T* const token = static_cast<const T*>(call.from) + pair / call.top_k * call.dim;
  const T* const row = static_cast<const T*>(call.grouped) + call.rows[pair] * call.dim;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x % 32; i < call.dim; i += 32) {
    sum = __fmaf_rn(ToFloat(token[i]), ToFloat(row[i]), sum);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) call.dweights[pair] = sum;
}

absl::Status RowDots(const RowDotsCall& call, CudaKernels& kernels) {
  const int64_t pairs = call.tokens * call.top_k;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH((DotRows<T>), WarpPerRowShape(pairs, kRowWarps), kernels.target().stream,
                         call);
  });
}
const OnCuda<RowDots> row_dots;

}  // namespace
}  // namespace zeroth::cuda
