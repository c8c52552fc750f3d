// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/cuda_kernels.h"
#include "zeroth/kernels/cuda/dispatch.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/cuda/warp.h"
#include "zeroth/kernels/muon/muon.h"

namespace zeroth::cuda {
namespace {

__device__ __forceinline__ float GradScale(const MuonCoefficients& c, const float* factor) {
  return factor == nullptr ? c.grad_scale : __fmul_rn(c.grad_scale, *factor);
}

// Every operation is spelled out. If the compiler fused operations in one place and not in another,
// an element's result would depend on its place.
template <typename G>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Momentum(int64_t count, const MuonCoefficients* coefficients, const float* factor,
             const G* grad, float* m, float* u) {
  constexpr float kSmallestNormal = 1.17549435e-38f;
  const MuonCoefficients c = *coefficients;
  const float scale = GradScale(c, factor);
  const bool skipped = scale != scale;
  const float add = __fmul_rn(c.one_minus_momentum, scale);
  for (const int64_t i : ItemsOfThread(count)) {
    if (skipped) {
      if (u != nullptr) u[i] = 0.0f;
      continue;
    }
    const float added = __fmul_rn(add, ToFloat(grad[i]));
    float next = __fmaf_rn(c.momentum, m[i], added);
    if (fabsf(next) < kSmallestNormal) next = 0.0f;
    m[i] = next;
    if (u != nullptr) u[i] = __fmaf_rn(c.momentum, next, added);
  }
}

__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    UpdateParams(int64_t count, const MuonCoefficients* coefficients, const float* factor,
                 const float* x, float* param) {
  const MuonCoefficients c = *coefficients;
  const float scale = GradScale(c, factor);
  if (scale != scale) return;  // a step to be skipped
  for (const int64_t i : ItemsOfThread(count)) {
    const float w = param[i];
    param[i] = __fsub_rn(w, __fmaf_rn(c.decay, w, __fmul_rn(c.step, x[i])));
  }
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads) Trace(int64_t n, const T* s, float* trace) {
  ZEROTH_SHARED(float, scratch, [kMapThreads / 32]);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += kMapThreads)
    sum = __fadd_rn(sum, ToFloat(s[i * (n + 1)]));
  sum = BlockSum<kMapThreads>(sum, scratch);
  if (threadIdx.x == 0) *trace = sum;
}

__device__ __forceinline__ float Reciprocal(const float* norm_squared) {
  return __fdiv_rn(1.0f, fmaxf(__fsqrt_rn(*norm_squared), 1e-7f));
}

// Clears the mantissa: the largest power of two up to r.
__device__ __forceinline__ float PowerOfTwo(float r) {
  return __uint_as_float(__float_as_uint(r) & 0x7f800000U);
}

// Each element has a thread; those above the diagonal do nothing. Multiplies by t twice, since t^2
// may be subnormal.
template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Normalise(int64_t n, T* s, const float* norm_squared) {
  const float t = PowerOfTwo(Reciprocal(norm_squared));
  for (const int64_t i : ItemsOfThread(n * n)) {
    if (i % n > i / n) continue;
    s[i] = FromFloat<T>(__fmul_rn(__fmul_rn(ToFloat(s[i]), t), t));
  }
}

// Each element has a thread; those above the diagonal do nothing.
template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    Polynomial(int64_t n, const T* s, T* s2, const float* norm_squared, float a, float b, float c) {
  const float r = norm_squared == nullptr ? 1.0f : Reciprocal(norm_squared);
  const float q = __fdiv_rn(r, PowerOfTwo(r));
  const float a1 = __fmul_rn(a, r);
  const float b3 = __fmul_rn(__fmul_rn(__fmul_rn(b, r), q), q);
  const float c5 = __fmul_rn(__fmul_rn(__fmul_rn(__fmul_rn(__fmul_rn(c, r), q), q), q), q);
  for (const int64_t i : ItemsOfThread(n * n)) {
    const int64_t row = i / n;
    const int64_t col = i % n;
    if (col > row) continue;
    float p = __fmaf_rn(b3, ToFloat(s[i]), __fmul_rn(c5, ToFloat(s2[i])));
    if (col == row) p = __fadd_rn(p, a1);
    s2[i] = FromFloat<T>(p);
  }
}

template <typename T>
__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor) Mirror(int64_t n, T* s) {
  for (const int64_t i : ItemsOfThread(n * n)) {
    const int64_t row = i / n;
    const int64_t col = i % n;
    if (col > row) s[i] = s[col * n + row];
  }
}

absl::Status MuonMomentum(const MuonMomentumCall& call, CudaKernels& kernels) {
  return DispatchType(call.grad_dtype, [&]<typename G>(TypeTag<G>) {
    return ZEROTH_MAP(Momentum<G>, call.count, kernels.target(), call.count, call.coefficients,
                      call.grad_factor, static_cast<const G*>(call.grad), call.m, call.u);
  });
}
const OnCuda<MuonMomentum> momentum;

absl::Status MuonUpdate(const MuonUpdateCall& call, CudaKernels& kernels) {
  return ZEROTH_MAP(UpdateParams, call.count, kernels.target(), call.count, call.coefficients,
                    call.grad_factor, call.x, call.param);
}
const OnCuda<MuonUpdate> update;

absl::Status MuonNormalise(const MuonNormaliseCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(Trace<T>, Blocks(1, kMapThreads), kernels.target().stream,
                                         call.n, static_cast<const T*>(call.s), call.norm_squared));
    return ZEROTH_MAP(Normalise<T>, call.n * call.n, kernels.target(), call.n,
                      static_cast<T*>(call.s), static_cast<const float*>(call.norm_squared));
  });
}
const OnCuda<MuonNormalise> normalise;

absl::Status MuonPolynomial(const MuonPolynomialCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(Polynomial<T>, call.n * call.n, kernels.target(), call.n,
                      static_cast<const T*>(call.s), static_cast<T*>(call.s2), call.norm_squared,
                      call.a, call.b, call.c);
  });
}
const OnCuda<MuonPolynomial> polynomial;

absl::Status MuonMirror(const MuonMirrorCall& call, CudaKernels& kernels) {
  return DispatchType(call.dtype, [&]<typename T>(TypeTag<T>) {
    return ZEROTH_MAP(Mirror<T>, call.n * call.n, kernels.target(), call.n,
                      static_cast<T*>(call.s));
  });
}
const OnCuda<MuonMirror> mirror;

}  // namespace
}  // namespace zeroth::cuda
