// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/adamw.h"

#include <cstddef>

#include "zeroth/kernels/cpu/by_element_type.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/adamw.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <class V>
struct AdamWState {
  V param;
  V m;
  V v;
};

template <class D, class V>
HWY_INLINE V ZeroIfSubnormal(D d, V x) {
  return hn::IfThenZeroElse(hn::Lt(hn::Abs(x), hn::Set(d, 1.17549435e-38f)), x);
}

// Decay and step are subtracted from the parameter together: a factor 1 - decay would be rounded to
// a multiple of 2^-24, which for small learning rates is a visible error in the decay.
template <class D, class V = hn::Vec<D>>
HWY_INLINE AdamWState<V> Update(D d, const AdamWCoefficients& c, V param, V grad, V m, V v) {
  const V g = hn::Mul(grad, hn::Set(d, c.grad_scale));
  m = hn::MulAdd(hn::Set(d, c.beta1), m, hn::Mul(hn::Set(d, c.one_minus_beta1), g));
  v = hn::MulAdd(hn::Set(d, c.beta2), v, hn::Mul(hn::Set(d, c.one_minus_beta2), hn::Mul(g, g)));
  m = ZeroIfSubnormal(d, m);
  v = ZeroIfSubnormal(d, v);
  const V denominator = hn::MulAdd(hn::Sqrt(v), hn::Set(d, c.root_scale), hn::Set(d, c.eps));
  const V change =
      hn::MulAdd(hn::Set(d, c.decay), param, hn::Div(hn::Mul(hn::Set(d, c.step), m), denominator));
  return {hn::Sub(param, change), m, v};
}

template <typename G>
HWY_INLINE void AdamWPiece(size_t n, const AdamWCoefficients& c, float* HWY_RESTRICT param,
                           const G* HWY_RESTRICT grad, float* HWY_RESTRICT m,
                           float* HWY_RESTRICT v) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto next = Update(d, c, hn::LoadU(d, param + i), LoadElements(d, grad + i),
                             hn::LoadU(d, m + i), hn::LoadU(d, v + i));
    hn::StoreU(next.param, d, param + i);
    hn::StoreU(next.m, d, m + i);
    hn::StoreU(next.v, d, v + i);
  }
  if (i == n) return;
  const size_t rest = n - i;
  const auto next =
      Update(d, c, LoadFirstElements(d, param + i, rest), LoadFirstElements(d, grad + i, rest),
             LoadFirstElements(d, m + i, rest), LoadFirstElements(d, v + i, rest));
  StoreFirstElements(next.param, d, param + i, rest);
  StoreFirstElements(next.m, d, m + i, rest);
  StoreFirstElements(next.v, d, v + i, rest);
}

// HWY_EXPORT takes the name of a function.
void AdamWF32(int64_t begin, int64_t end, const AdamWCoefficients& c, float* param,
              const void* grad, float* m, float* v) {
  AdamWPiece(static_cast<size_t>(end - begin), c, param + begin,
             static_cast<const float*>(grad) + begin, m + begin, v + begin);
}
void AdamWBF16(int64_t begin, int64_t end, const AdamWCoefficients& c, float* param,
               const void* grad, float* m, float* v) {
  AdamWPiece(static_cast<size_t>(end - begin), c, param + begin,
             static_cast<const BFloat16*>(grad) + begin, m + begin, v + begin);
}
void AdamWF16(int64_t begin, int64_t end, const AdamWCoefficients& c, float* param,
              const void* grad, float* m, float* v) {
  AdamWPiece(static_cast<size_t>(end - begin), c, param + begin,
             static_cast<const Float16*>(grad) + begin, m + begin, v + begin);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(AdamWF32);
HWY_EXPORT(AdamWBF16);
HWY_EXPORT(AdamWF16);

void AdamW(int64_t n, const AdamWCoefficients& coefficients, float* param, DType grad_dtype,
           const void* grad, float* m, float* v) {
  const auto piece = ByElementType(grad_dtype, HWY_DYNAMIC_DISPATCH(AdamWF32),
                                   HWY_DYNAMIC_DISPATCH(AdamWBF16), HWY_DYNAMIC_DISPATCH(AdamWF16));
  ParallelFor(n, kElementGrain, [=, &coefficients](int64_t, int64_t begin, int64_t end) {
    piece(begin, end, coefficients, param, grad, m, v);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
