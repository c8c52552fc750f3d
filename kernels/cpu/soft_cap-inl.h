// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Soft-capping, cap * tanh(x / cap), of attention scores and logits.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_CPU_SOFT_CAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_CPU_SOFT_CAP_INL_H_
#undef ZEROTH_KERNELS_CPU_SOFT_CAP_INL_H_
#else
#define ZEROTH_KERNELS_CPU_SOFT_CAP_INL_H_
#endif

#include "hwy/highway.h"

#include "zeroth/kernels/cpu/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Returns tanh(x) within a few ulp for every x; NaN for NaN.
//
// Below 0.6 a polynomial in z = x^2, (tanh(x) / x - 1) / z interpolated at the Chebyshev nodes of
// [0, 0.36] (relative error 1.1e-8): the quotient of exponentials would lose the digits of a small
// x. Above, (1 - e) / (1 + e) with e = e^(-2 |x|).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V magnitude = hn::Abs(x);
  const V z = hn::Mul(x, x);
  V p = hn::MulAdd(z, hn::Set(d, -6.26911973e-3f), hn::Set(d, 2.11109591e-2f));
  p = hn::MulAdd(z, p, hn::Set(d, -5.38739489e-2f));
  p = hn::MulAdd(z, p, hn::Set(d, 1.33329154e-1f));
  p = hn::MulAdd(z, p, hn::Set(d, -3.33333303e-1f));
  const V small = hn::MulAdd(hn::Mul(x, z), p, x);
  const V one = hn::Set(d, 1.0f);
  const V e = Exp(d, hn::Mul(magnitude, hn::Set(d, -2.0f)));
  const V large = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.6f)), small, large);
}

// Returns cap * tanh(x / cap), for a cap above 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SoftCap(D d, V x, float cap) {
  return hn::Mul(hn::Set(d, cap), Tanh(d, hn::Mul(x, hn::Set(d, 1.0f / cap))));
}

// Returns the slope of SoftCap where its value is `y`: 1 - (y / cap)^2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SoftCapSlope(D d, V y, float cap) {
  const V t = hn::Mul(y, hn::Set(d, 1.0f / cap));
  return hn::NegMulAdd(t, t, hn::Set(d, 1.0f));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
