// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/cuda_status.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/data_error_report.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/softmax_loss.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

constexpr int32_t kIgnored = -100;
constexpr int kThreads = 512;
constexpr int kWidth = 4;  // fp32 logits in 16 bytes

__device__ __forceinline__ bool Counts(int32_t target, int64_t vocab) {
  return target >= 0 && target < vocab;
}

__global__ void __launch_bounds__(kMapThreads)
    CountKernel(int64_t rows, int64_t vocab, const int32_t* targets, int32_t* counted,
                DataErrorWord* error) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const int32_t target = targets[row];
  if (Counts(target, vocab)) {
    atomicAdd(counted, 1);
  } else if (target != kIgnored) {
    ReportDataError(error, DataErrorCode::kTarget, target, row, 1, vocab);
  }
}

// A block has a row. The first pass keeps each thread's maximum and the sum relative to it; the
// second writes gradients over the logits, a stretch at a time: what a stretch writes lies before
// what later ones read, since a gradient is no longer than a logit.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxLossKernel(int64_t vocab, int64_t stride, float* logits, const int32_t* targets,
                      const int32_t* counted, bool gradients, float grad_scale, float* losses) {
  __shared__ float scratch[kThreads / 32];
  const int64_t row = blockIdx.x;
  const float* const x = logits + row * stride;
  T* const dx = reinterpret_cast<T*>(logits + row * stride);
  const int32_t target = targets[row];
  const bool counts = Counts(target, vocab);
  const float at_target = counts ? x[target] : 0.0f;

  constexpr int64_t kStep = int64_t{kThreads} * kWidth;
  float largest = -3.0e38f;
  float sum = 0.0f;
  for (int64_t at = int64_t{threadIdx.x} * kWidth; at < vocab; at += kStep) {
    float value[kWidth];
    if (at + kWidth <= vocab) {
      LoadPack<kWidth>(x + at, value);
    } else {
      for (int i = 0; i < kWidth; ++i) value[i] = at + i < vocab ? x[at + i] : -3.0e38f;
    }
    float most = largest;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) most = fmaxf(most, value[i]);
    sum *= expf(largest - most);
    largest = most;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += value[i] <= -3.0e38f ? 0.0f : expf(value[i] - largest);
  }
  const float overall = BlockMax<kThreads>(largest, scratch);
  sum = BlockSum<kThreads>(sum * expf(largest - overall), scratch);
  const float log_sum = overall + logf(sum);
  if (threadIdx.x == 0) losses[row] = counts ? log_sum - at_target : 0.0f;
  if (!gradients) return;

  const float scale = counts ? grad_scale / static_cast<float>(*counted) : 0.0f;
  for (int64_t begin = 0; begin < vocab; begin += kStep) {
    const int64_t at = begin + int64_t{threadIdx.x} * kWidth;
    float value[kWidth] = {};
    const bool whole = at + kWidth <= vocab;
    if (whole) {
      LoadPack<kWidth>(x + at, value);
    } else {
      for (int i = 0; i < kWidth; ++i) value[i] = at + i < vocab ? x[at + i] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float hot = at + i == target ? 1.0f : 0.0f;
      // A row that does not count may hold anything, infinities included.
      value[i] = counts ? (expf(value[i] - log_sum) - hot) * scale : 0.0f;
    }
    __syncthreads();  // everybody has read this stretch
    if (whole) {
      StorePack<kWidth>(value, dx + at);
    } else {
      for (int i = 0; i < kWidth; ++i) {
        if (at + i < vocab) dx[at + i] = FromFloat<T>(value[i]);
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    MeanKernel(int64_t rows, const float* losses, const int32_t* counted, float* loss) {
  __shared__ double sums[kThreads];
  double sum = 0.0;
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    sum += static_cast<double>(losses[row]);
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kThreads; ++i) sum += sums[i];
  *loss = *counted == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(*counted));
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    RoundKernel(int64_t count, const float* sums, bool accumulate, T* out) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    out[i] = FromFloat<T>(accumulate ? __fadd_rn(ToFloat(out[i]), sums[i]) : sums[i]);
  }
}

}  // namespace

absl::Status CountTargets(int64_t rows, int64_t vocab, const int32_t* targets, int32_t* counted,
                          DataErrorWord* error, const LaunchTarget& target) {
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(counted, 0, sizeof(*counted), target.stream));
  const LaunchShape shape = {dim3(static_cast<unsigned>((rows + kMapThreads - 1) / kMapThreads)),
                             dim3(kMapThreads)};
  return ZEROTH_LAUNCH(CountKernel, shape, target.stream, rows, vocab, targets, counted, error);
}

absl::Status SoftmaxLoss(int64_t rows, int64_t vocab, int64_t stride, float* logits,
                         const int32_t* targets, const int32_t* counted, bool gradients,
                         DType dtype, float grad_scale, float* losses, const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const LaunchShape shape = {dim3(static_cast<unsigned>(rows)), dim3(kThreads)};
    return ZEROTH_LAUNCH(SoftmaxLossKernel<T>, shape, target.stream, vocab, stride, logits, targets,
                         counted, gradients, grad_scale, losses);
  });
}

absl::Status MeanLoss(int64_t rows, const float* losses, const int32_t* counted, float* loss,
                      const LaunchTarget& target) {
  return ZEROTH_LAUNCH(MeanKernel, (LaunchShape{dim3(1), dim3(kThreads)}), target.stream, rows,
                       losses, counted, loss);
}

absl::Status RoundSums(int64_t count, const float* sums, bool accumulate, DType dtype, void* out,
                       const LaunchTarget& target) {
  return DispatchType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return ZEROTH_LAUNCH(RoundKernel<T>, MapShape(count, target.multiprocessors), target.stream,
                         count, sums, accumulate, static_cast<T*>(out));
  });
}

}  // namespace zeroth::cuda
