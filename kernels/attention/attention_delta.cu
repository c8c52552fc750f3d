// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/attention_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {
namespace {

// A head's row is short, and rows are contiguous. With eight lanes for each row, a warp's accesses
// are contiguous, too.
constexpr int kLanesPerRow = 8;

template <int N, typename T>
__global__ void __launch_bounds__(kMapThreads)
    AttentionDelta(HeadLayout at, int64_t rows, const T* dout, const T* out, float* delta) {
  const int64_t thread = int64_t{blockIdx.x} * kMapThreads + threadIdx.x;
  const int64_t row = thread / kLanesPerRow;
  float sum = 0.0f;
  if (row < rows) {
    const int64_t begin = row * at.head_dim;
    for (int i = static_cast<int>(thread % kLanesPerRow) * N; i < at.head_dim;
         i += kLanesPerRow * N) {
      float a[N];
      float b[N];
      LoadPack<N>(dout + begin + i, a);
      LoadPack<N>(out + begin + i, b);
#pragma unroll
      for (int j = 0; j < N; ++j) sum = __fmaf_rn(a[j], b[j], sum);
    }
  }
#pragma unroll
  for (int mask = kLanesPerRow / 2; mask > 0; mask /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  }
  if (row >= rows || thread % kLanesPerRow != 0) return;
  const int64_t token = row / at.heads;
  const int head = static_cast<int>(row % at.heads);
  delta[at.Statistic(token / at.seq, head) + token % at.seq] = sum;
}

}  // namespace

absl::Status LaunchAttentionDelta(const HeadLayout& at, int64_t batch, DType dtype, bool aligned,
                                  const void* dout, const void* out, float* delta,
                                  cudaStream_t stream) {
  const int64_t rows = batch * at.seq * at.heads;
  constexpr int64_t kRowsPerBlock = kMapThreads / kLanesPerRow;
  const LaunchShape shape = {
      dim3(static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock)), dim3(kMapThreads)};
  return DispatchType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const a = static_cast<const T*>(dout);
    const T* const b = static_cast<const T*>(out);
    if (aligned && at.head_dim % kPackWidth<T> == 0) {
      return ZEROTH_LAUNCH((AttentionDelta<kPackWidth<T>, T>), shape, stream, at, rows, a, b,
                           delta);
    }
    return ZEROTH_LAUNCH((AttentionDelta<1, T>), shape, stream, at, rows, a, b, delta);
  });
}

}  // namespace zeroth::cuda
