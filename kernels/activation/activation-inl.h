// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Vectorised GELU, its derivative, SiLU, and the logistic function that they use.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_ACTIVATION_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_ACTIVATION_ACTIVATION_INL_H_
#undef ZEROTH_KERNELS_ACTIVATION_ACTIVATION_INL_H_
#else
#define ZEROTH_KERNELS_ACTIVATION_ACTIVATION_INL_H_
#endif

#include "hwy/highway.h"

#include "zeroth/kernels/cpu/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Returns the larger of `lowest` and v. NaN in v stays NaN, since no comparison with NaN is true.
// Max treats NaN differently on different instruction sets.
template <class D, class V>
HWY_INLINE V AtLeast(D d, float lowest, V v) {
  const V low = hn::Set(d, lowest);
  return hn::IfThenElse(hn::Lt(v, low), low, v);
}

// Returns the smaller of `highest` and v, with the same treatment of NaN.
template <class D, class V>
HWY_INLINE V AtMost(D d, float highest, V v) {
  const V high = hn::Set(d, highest);
  return hn::IfThenElse(hn::Gt(v, high), high, v);
}

// Returns e^-z, bounded so that 1 + e^-z and its reciprocal stay finite and normal. Unspecified for
// NaN, because callers multiply the result by a factor that is NaN then.
template <class D, class V>
HWY_INLINE V ExpOfNegated(D d, V z) {
  const V bound = hn::Set(d, 87.0f);
  return ExpInRange(d, hn::Max(hn::Neg(bound), hn::Min(bound, hn::Neg(z))));
}

// Returns 1 / a within two ulp, for a in [1, 2^126], by one step of Newton's iteration on the
// processor's estimate of at least 12 bits. A division would take longer than the rest of an
// activation.
template <class D, class V>
HWY_INLINE V Reciprocal(D d, V a) {
  const V one = hn::Set(d, 1.0f);
#if HWY_ARCH_X86
  const V estimate = hn::ApproximateReciprocal(a);
  return hn::MulAdd(estimate, hn::NegMulAdd(a, estimate, one), estimate);
#else
  return hn::Div(one, a);
#endif
}

// Returns x / (1 + e^-z).
template <class D, class V>
HWY_INLINE V TimesLogistic(D d, V x, V z) {
  return hn::Mul(x, Reciprocal(d, hn::Add(hn::Set(d, 1.0f), ExpOfNegated(d, z))));
}

// Computes s = 1 / (1 + e^-z) and 1 - s, the latter without cancellation for large z.
template <class D, class V>
HWY_INLINE void LogisticAndComplement(D d, V z, V& s, V& complement) {
  const V e = ExpOfNegated(d, z);
  s = Reciprocal(d, hn::Add(hn::Set(d, 1.0f), e));
  complement = hn::Mul(e, s);
}

// GELU in its tanh form is x * logistic(z) with z = 2 sqrt(2 / pi) (x + 0.044715 x^3) = x
// (kGeluLinear + kGeluCubic x^2), because (1 + tanh(z / 2)) / 2 is the logistic function of z.
constexpr float kGeluLinear = 1.5957691216057308f;
constexpr float kGeluCubic = 0.07135481627260025f;

// Below these, SiLU, GELU and their derivatives are zero in float precision. Smaller inputs are
// raised to these values, so that no huge number is multiplied by a tiny one.
constexpr float kSiluLowest = -120.0f;
constexpr float kGeluLowest = -16.0f;

template <class D, class V>
HWY_INLINE V GeluOf(D d, V x) {
  const V v = AtLeast(d, kGeluLowest, x);
  const V slope = hn::MulAdd(hn::Mul(v, v), hn::Set(d, kGeluCubic), hn::Set(d, kGeluLinear));
  return TimesLogistic(d, v, hn::Mul(v, slope));
}

// Returns gelu'(x). With s = logistic(z(x)): s + x s (1 - s) z'(x) = s (1 + x z'(x) (1 - s)).
template <class D, class V>
HWY_INLINE V GeluSlope(D d, V x) {
  // The derivative is one from -kGeluLowest upwards.
  const V v = AtLeast(d, kGeluLowest, AtMost(d, -kGeluLowest, x));
  const V cubic = hn::Mul(hn::Mul(v, v), hn::Set(d, kGeluCubic));
  const V z = hn::Mul(v, hn::Add(cubic, hn::Set(d, kGeluLinear)));
  const V dz = hn::MulAdd(cubic, hn::Set(d, 3.0f), hn::Set(d, kGeluLinear));
  V s = z;
  V complement = z;
  LogisticAndComplement(d, z, s, complement);
  return hn::Mul(s, hn::MulAdd(hn::Mul(v, dz), complement, hn::Set(d, 1.0f)));
}

template <class D, class V>
HWY_INLINE V SiluOf(D d, V x) {
  const V v = AtLeast(d, kSiluLowest, x);
  return TimesLogistic(d, v, v);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
