// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/column_sum.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/delta_net/delta_net.h"

namespace zeroth::cuda {
namespace {

// Returns the number of earlier tokens that the token of this row reads.
__device__ __forceinline__ int64_t Reach(const ShortConvolutionCall& call, int64_t row) {
  const int64_t place = row % call.seq;
  int64_t start = call.starts == nullptr ? 0 : call.starts[row];
  // Clamped, so that memory outside of the sequence is not read whatever `starts` holds.
  start = start < 0 ? 0 : start > place ? place : start;
  return place - start < call.width - 1 ? place - start : call.width - 1;
}

// Returns the convolution, before its activation. kHasState: the call has an initial state.
template <bool kHasState, typename T>
__device__ __forceinline__ float Convolve(const ShortConvolutionCall& call, int64_t row,
                                          int64_t channel) {
  const T* const x = static_cast<const T*>(call.x) + row * call.channels + channel;
  const T* const last = static_cast<const T*>(call.weight) + (channel + 1) * call.width - 1;
  float sum = 0.0f;
  if constexpr (kHasState) {
    const int64_t place = row % call.seq;
    // One past the last row of the sequence's state; places before the sequence are negative.
    const T* const before = static_cast<const T*>(call.initial_state) +
                            (row / call.seq + 1) * (call.width - 1) * call.channels + channel;
    for (int64_t j = call.width - 1; j >= 0; --j) {
      const T* const input =
          j <= place ? x - j * call.channels : before + (place - j) * call.channels;
      sum += ToFloat(last[-j]) * ToFloat(*input);
    }
  } else {
    for (int64_t j = Reach(call, row); j >= 0; --j) {
      sum += ToFloat(last[-j]) * ToFloat(x[-j * call.channels]);
    }
  }
  return sum;
}

// Returns the gradient of the convolution before its activation.
template <typename T>
__device__ __forceinline__ float ConvolutionGradient(const ShortConvolutionBackwardCall& call,
                                                     int64_t row, int64_t channel) {
  const float x = Convolve<false, T>(call.forward, row, channel);
  const float s = 1.0f / (1.0f + expf(-x));
  const float dy = ToFloat(static_cast<const T*>(call.dy)[row * call.forward.channels + channel]);
  return dy * s * (1.0f + x * (1.0f - s));
}

template <bool kHasState, typename T>
__global__ void __launch_bounds__(kMapThreads) ConvolveKernel(ShortConvolutionCall call) {
  for (const int64_t item : ItemsOfThread(call.batch * call.seq * call.channels)) {
    const float sum = Convolve<kHasState, T>(call, item / call.channels, item % call.channels);
    static_cast<T*>(call.y)[item] = FromFloat<T>(sum / (1.0f + expf(-sum)));
  }
  if (call.final_state == nullptr) return;
  const int64_t kept = call.width - 1;
  for (const int64_t item : ItemsOfThread(call.batch * kept * call.channels)) {
    const int64_t sequence = item / (kept * call.channels);
    const int64_t place = call.seq - kept + item / call.channels % kept;
    T value = FromFloat<T>(0.0f);
    if (place >= 0) {
      const int64_t row = sequence * call.seq + place;
      value = static_cast<const T*>(call.x)[row * call.channels + item % call.channels];
    } else if (kHasState) {
      // A sequence shorter than the state moves it by seq rows.
      value = static_cast<const T*>(call.initial_state)[item + call.seq * call.channels];
    }
    static_cast<T*>(call.final_state)[item] = value;
  }
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    ConvolutionInputGradient(ShortConvolutionBackwardCall call) {
  const ShortConvolutionCall& forward = call.forward;
  for (const int64_t item : ItemsOfThread(forward.batch * forward.seq * forward.channels)) {
    const int64_t row = item / forward.channels;
    const int64_t channel = item % forward.channels;
    const T* const last = static_cast<const T*>(forward.weight) + (channel + 1) * forward.width - 1;
    const int64_t after = forward.seq - row % forward.seq;
    float sum = 0.0f;
    for (int64_t j = 0; j < forward.width && j < after; ++j) {
      if (Reach(forward, row + j) < j) continue;
      sum += ToFloat(last[-j]) * ConvolutionGradient<T>(call, row + j, channel);
    }
    static_cast<T*>(call.dx)[item] = FromFloat<T>(sum);
  }
}

// A thread sums one channel over a piece of the rows.
template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    ConvolutionWeightGradient(ShortConvolutionBackwardCall call, int64_t pieces, float* partial) {
  const ShortConvolutionCall& forward = call.forward;
  const int64_t rows = forward.batch * forward.seq;
  for (const int64_t item : ItemsOfThread(pieces * forward.channels)) {
    const int64_t piece = item / forward.channels;
    const int64_t channel = item % forward.channels;
    float sums[kMostTaps] = {};
    for (int64_t row = rows * piece / pieces; row < rows * (piece + 1) / pieces; ++row) {
      const float gradient = ConvolutionGradient<T>(call, row, channel);
      const int64_t reach = Reach(forward, row);
      const T* const x = static_cast<const T*>(forward.x) + row * forward.channels + channel;
#pragma unroll
      for (int j = 0; j < kMostTaps; ++j) {
        if (j <= reach) sums[j] += gradient * ToFloat(x[-j * forward.channels]);
      }
    }
    float* const last = partial + (item + 1) * forward.width - 1;
#pragma unroll
    for (int j = 0; j < kMostTaps; ++j) {
      if (j < forward.width) last[-j] = sums[j];
    }
  }
}

absl::Status ShortConvolution(const ShortConvolutionCall& call, CudaKernels& kernels) {
  const int64_t kept = call.final_state == nullptr ? 0 : call.width - 1;
  const int64_t items = call.batch * std::max(call.seq, kept) * call.channels;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    if (call.initial_state == nullptr) {
      return ZEROTH_MAP((ConvolveKernel<false, T>), items, kernels.target(), call);
    }
    return ZEROTH_MAP((ConvolveKernel<true, T>), items, kernels.target(), call);
  });
}
const OnCuda<ShortConvolution> short_convolution;

absl::Status ShortConvolutionBackward(const ShortConvolutionBackwardCall& call,
                                      CudaKernels& kernels) {
  const ShortConvolutionCall& forward = call.forward;
  const LaunchTarget& target = kernels.target();
  const int64_t rows = forward.batch * forward.seq;
  const int64_t pieces = RowPieces(rows);
  const int64_t weights = forward.channels * forward.width;
  std::shared_ptr<Buffer> memory;
  if (call.dweight != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(memory,
                            kernels.Scratch(static_cast<size_t>(pieces * weights) * sizeof(float)));
  }
  const absl::Status launched =
      DispatchType(forward.dtype, [&]<typename T>(TypeTag<T>) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(
            ZEROTH_MAP(ConvolutionInputGradient<T>, rows * forward.channels, target, call));
        if (memory == nullptr) return absl::OkStatus();
        return ZEROTH_MAP(ConvolutionWeightGradient<T>, pieces * forward.channels, target, call,
                          pieces, static_cast<float*>(memory->data()));
      });
  if (!launched.ok() || memory == nullptr) return launched;
  return SumPieces(pieces, weights, static_cast<float*>(memory->data()), call.accumulate_dweight,
                   call.grad_dtype, call.dweight, target);
}
const OnCuda<ShortConvolutionBackward> short_convolution_backward;

}  // namespace
}  // namespace zeroth::cuda
