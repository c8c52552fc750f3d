// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A warp computes one head of one row.

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/attention/sinks.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/warp.h"

namespace zeroth::cuda {
namespace {

constexpr int kSinkWarps = 4;

template <typename T>
__global__ void __launch_bounds__(kSinkWarps * 32) SinkRows(AttentionSinksCall call) {
  const int64_t at = int64_t{blockIdx.x} * kSinkWarps + threadIdx.x / 32;
  if (at >= call.batch * call.seq * call.heads) return;
  const int64_t head = at % call.heads;
  float* const place = call.lse + call.Statistic(at / call.heads, head);
  const float sink = ToFloat(static_cast<const T*>(call.sinks)[head]);
  // Only the lane that writes the sum reads it.
  const bool leads = threadIdx.x % 32 == 0;
  const float lse = __shfl_sync(kWholeWarp, leads ? *place : 0.0f, 0);
  const float share = 1.0f / (1.0f + expf(sink - lse));
  T* const out = static_cast<T*>(call.out) + at * call.head_dim;
  for (int64_t i = threadIdx.x % 32; i < call.head_dim; i += 32) {
    out[i] = FromFloat<T>(share * ToFloat(out[i]));
  }
  if (leads) *place = fmaxf(lse, sink) + log1pf(expf(-fabsf(lse - sink)));
}

template <typename T>
__global__ void __launch_bounds__(kSinkWarps * 32) GradientRows(SinkGradientCall call) {
  const int64_t at = int64_t{blockIdx.x} * kSinkWarps + threadIdx.x / 32;
  if (at >= call.batch * call.seq * call.heads) return;
  const int64_t head = at % call.heads;
  const T* const dout = static_cast<const T*>(call.dout) + at * call.head_dim;
  const T* const out = static_cast<const T*>(call.out) + at * call.head_dim;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x % 32; i < call.head_dim; i += 32) {
    sum = __fmaf_rn(ToFloat(dout[i]), ToFloat(out[i]), sum);
  }
  sum = WarpSum(sum);
  if (threadIdx.x % 32 != 0) return;
  const float sink = ToFloat(static_cast<const T*>(call.sinks)[head]);
  call.gradient[at] = -expf(sink - call.lse[call.Statistic(at / call.heads, head)]) * sum;
}

absl::Status AttentionSinks(const AttentionSinksCall& call, CudaKernels& kernels) {
  const int64_t rows = call.batch * call.seq * call.heads;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH((SinkRows<T>), WarpPerRowShape(rows, kSinkWarps), kernels.target().stream,
                         call);
  });
}
const OnCuda<AttentionSinks> attention_sinks;

absl::Status SinkGradient(const SinkGradientCall& call, CudaKernels& kernels) {
  const int64_t rows = call.batch * call.seq * call.heads;
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_LAUNCH((GradientRows<T>), WarpPerRowShape(rows, kSinkWarps),
                         kernels.target().stream, call);
  });
}
const OnCuda<SinkGradient> sink_gradient;

}  // namespace
}  // namespace zeroth::cuda
