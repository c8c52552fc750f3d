// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/norm/norm.h"

namespace zeroth::cuda {
namespace {

constexpr int kWarps = 4;

// A warp processes a row. Each pass reads the row again: a few kilobytes, which stay in the L1
// cache.
template <int N, bool kCentred, typename T>
__global__ void __launch_bounds__(kWarps * 32)
    NormForward(int64_t rows, int64_t dim, const T* x, const T* residual, T* sum, const T* gamma,
                float offset, const T* beta, float eps, T* y, float* mean_out, float* rstd_out,
                const float* sums, int64_t width) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const int64_t first = int64_t{threadIdx.x % 32} * N;
  constexpr int64_t kStep = 32 * N;
  x += row * dim;
  const T* source = x;
  float total = 0.0f;
  if (residual != nullptr) {
    residual += row * dim;
    sum += row * dim;
    source = sum;
  }
  for (int64_t at = first; at < dim; at += kStep) {
    float value[N];
    LoadPack<N>(x + at, value);
    if (residual != nullptr) {
      float other[N];
      LoadPack<N>(residual + at, other);
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] = ToFloat(FromFloat<T>(__fadd_rn(value[i], other[i])));
      StorePack<N>(value, sum + at);
    }
#pragma unroll
    for (int i = 0; i < N; ++i) total += kCentred ? value[i] : value[i] * value[i];
  }
  const float scale = 1.0f / static_cast<float>(width);
  const float first_moment = (sums != nullptr ? sums[row] : WarpSum(total)) * scale;
  float mean = 0.0f;
  float variance = first_moment;
  if constexpr (kCentred) {
    mean = first_moment;
    float squares = 0.0f;
    for (int64_t at = first; at < dim; at += kStep) {
      float value[N];
      LoadPack<N>(source + at, value);
#pragma unroll
      for (int i = 0; i < N; ++i) squares += (value[i] - mean) * (value[i] - mean);
    }
    variance = WarpSum(squares) * scale;
  }
  const float rstd = 1.0f / sqrtf(variance + eps);
  for (int64_t at = first; at < dim; at += kStep) {
    float value[N];
    float g[N];
    LoadPack<N>(source + at, value);
    LoadPack<N>(gamma + at, g);
    float b[N] = {};
    if constexpr (kCentred) LoadPack<N>(beta + at, b);
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] = (value[i] - mean) * rstd * (g[i] + offset) + b[i];
    StorePack<N>(value, y + row * dim + at);
  }
  if (threadIdx.x % 32 != 0) return;
  if constexpr (kCentred) mean_out[row] = mean;
  rstd_out[row] = rstd;
}

// Computes each row's sum of x^2, or of dy (gamma + offset) x rstd.
template <int N, typename T>
__global__ void __launch_bounds__(kWarps * 32)
    RmsSumsKernel(int64_t rows, int64_t cols, const T* x, int64_t x_stride, const T* dy,
                  int64_t dy_stride, const T* gamma, float offset, const float* rstd_in,
                  float* sums) {
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const float rstd = dy == nullptr ? 1.0f : rstd_in[row];
  x += row * x_stride;
  float total = 0.0f;
  for (int64_t at = int64_t{threadIdx.x % 32} * N; at < cols; at += 32 * N) {
    float value[N];
    float other[N];
    float g[N];
    LoadPack<N>(x + at, value);
    LoadPack<N>(dy == nullptr ? x + at : dy + row * dy_stride + at, other);
    if (dy != nullptr) LoadPack<N>(gamma + at, g);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if (dy != nullptr) other[i] *= g[i] + offset;
      total += other[i] * (value[i] * rstd);
    }
  }
  total = WarpSum(total);
  if (threadIdx.x % 32 == 0) sums[row] = total;
}

template <int N, bool kCentred, typename T>
absl::Status LaunchForward(const NormCall& call, const LaunchTarget& target) {
  return ZEROTH_LAUNCH((NormForward<N, kCentred, T>), WarpPerRowShape(call.rows, kWarps),
                       target.stream, call.rows, call.dim, static_cast<const T*>(call.x),
                       static_cast<const T*>(call.residual), static_cast<T*>(call.sum),
                       static_cast<const T*>(call.gamma), call.gamma_offset,
                       static_cast<const T*>(call.beta), call.eps, static_cast<T*>(call.y),
                       call.mean, call.rstd, call.sums, call.width);
}

absl::Status Norm(const NormCall& call, CudaKernels& kernels) {
  const LaunchTarget& target = kernels.target();
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    constexpr int kWidth = kPackWidth<T>;
    const bool packed = call.dim % kWidth == 0 &&
                        ArePacked(call.x, call.residual, call.sum, call.gamma, call.beta, call.y);
    return DispatchWidth<kWidth>(packed, [&](auto width) {
      return call.mean != nullptr ? LaunchForward<width(), true, T>(call, target)
                                  : LaunchForward<width(), false, T>(call, target);
    });
  });
}
const OnCuda<Norm> norm;

absl::Status RmsSums(const RmsSumsCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    constexpr int kWidth = kPackWidth<T>;
    // The width decides the order of sums, so it must not depend on where the columns lie.
    const bool packed = call.cols % kWidth == 0 && call.x_stride % kWidth == 0 &&
                        call.dy_stride % kWidth == 0 && ArePacked(call.x, call.dy, call.gamma);
    return DispatchWidth<kWidth>(packed, [&](auto width) {
      return ZEROTH_LAUNCH(
          (RmsSumsKernel<width(), T>), WarpPerRowShape(call.rows, kWarps), kernels.target().stream,
          call.rows, call.cols, static_cast<const T*>(call.x), call.x_stride,
          static_cast<const T*>(call.dy), call.dy_stride, static_cast<const T*>(call.gamma),
          call.gamma_offset, call.rstd, call.sums);
    });
  });
}
const OnCuda<RmsSums> rms_sums;

}  // namespace
}  // namespace zeroth::cuda
