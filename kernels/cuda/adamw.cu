// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/adamw.h"
#include "zeroth/kernels/cuda/dispatch.h"

namespace zeroth::cuda {
namespace {

// Every operation is spelled out: what the compiler fuses in a vector body and not in its tail
// would make an element's result depend on its place.
__device__ __forceinline__ void Update(const AdamWCoefficients& c, float scale, float grad,
                                       float& param, float& m, float& v) {
  constexpr float kSmallestNormal = 1.17549435e-38f;
  const float g = __fmul_rn(grad, scale);
  m = __fmaf_rn(c.beta1, m, __fmul_rn(c.one_minus_beta1, g));
  v = __fmaf_rn(c.beta2, v, __fmul_rn(c.one_minus_beta2, __fmul_rn(g, g)));
  if (fabsf(m) < kSmallestNormal) m = 0.0f;
  if (fabsf(v) < kSmallestNormal) v = 0.0f;
  const float denominator = __fmaf_rn(__fsqrt_rn(v), c.root_scale, c.eps);
  const float change = __fmaf_rn(c.decay, param, __fdiv_rn(__fmul_rn(c.step, m), denominator));
  param = __fsub_rn(param, change);
}

template <int N, typename G>
__global__ void __launch_bounds__(kMapThreads)
    AdamWKernel(int64_t count, AdamWCoefficients scalars, const AdamWCoefficients* on_device,
                float* param, const G* grad, float* m, float* v, const float* grad_factor) {
  const AdamWCoefficients c = on_device == nullptr ? scalars : *on_device;
  const float scale = grad_factor == nullptr ? c.grad_scale : __fmul_rn(c.grad_scale, *grad_factor);
  if (scale != scale) return;  // a step to be skipped
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = first * N; at + N <= count; at += step * N) {
    float g[N];
    float p[N];
    float first_moment[N];
    float second_moment[N];
    LoadPack<N>(grad + at, g);
    LoadPack<N>(param + at, p);
    LoadPack<N>(m + at, first_moment);
    LoadPack<N>(v + at, second_moment);
#pragma unroll
    for (int i = 0; i < N; ++i) Update(c, scale, g[i], p[i], first_moment[i], second_moment[i]);
    StorePack<N>(p, param + at);
    StorePack<N>(first_moment, m + at);
    StorePack<N>(second_moment, v + at);
  }
  const int64_t rest = count / N * N + first;
  if (rest < count) Update(c, scale, ToFloat(grad[rest]), param[rest], m[rest], v[rest]);
}

}  // namespace

absl::Status AdamW(int64_t count, const AdamWCoefficients& coefficients,
                   const AdamWCoefficients* on_device, float* param, const void* grad,
                   DType grad_dtype, float* m, float* v, const float* grad_factor,
                   const LaunchTarget& target) {
  return DispatchType(grad_dtype, [&](auto tag) {
    using G = typename decltype(tag)::type;
    // Four floats of each array in flight hide the memory's latency; more cost registers.
    constexpr int kWidth = 4;
    const auto* gradients = static_cast<const G*>(grad);
    if (ArePacked(param, gradients, m, v)) {
      return ZEROTH_LAUNCH(
          (AdamWKernel<kWidth, G>), MapShape((count + kWidth - 1) / kWidth, target.multiprocessors),
          target.stream, count, coefficients, on_device, param, gradients, m, v, grad_factor);
    }
    return ZEROTH_LAUNCH((AdamWKernel<1, G>), MapShape(count, target.multiprocessors),
                         target.stream, count, coefficients, on_device, param, gradients, m, v,
                         grad_factor);
  });
}

}  // namespace zeroth::cuda
