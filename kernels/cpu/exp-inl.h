// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// e^x for softmax and activations. Highway's own Exp turns NaN into zero, which would hide a
// diverged model behind a finite loss.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_CPU_EXP_INL_H_
#undef ZEROTH_KERNELS_CPU_EXP_INL_H_
#else
#define ZEROTH_KERNELS_CPU_EXP_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Returns e^x for x in [-87.3, 88], within 2 ulp; NaN for NaN.
//
// x = q ln 2 + r with |r| <= ln(2) / 2, and e^r = 1 + r + r^2 p(r), where p interpolates at the
// Chebyshev nodes of that interval (relative error 1.1e-8). ln 2 is split so that q times its upper
// part is exact.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpInRange(D d, V x) {
  const hn::RebindToSigned<D> di;
  // The last bit of a float from 2^23 to 2^24 weighs one: adding 1.5 * 2^23 rounds to an integer
  // and leaves it, with the exponent's bias, in the lowest bits. On AVX-512 a rounding, a
  // conversion and Highway's handling of its overflow would take seven instructions more.
  const V biased_magic = hn::Set(d, 12582912.0f + 127.0f);
  const V biased = hn::MulAdd(x, hn::Set(d, 1.44269504f), biased_magic);
  const V q = hn::Sub(biased, biased_magic);
  V r = hn::NegMulAdd(q, hn::Set(d, 0.693115234375f), x);
  r = hn::NegMulAdd(q, hn::Set(d, 3.19461849e-5f), r);
  V p = hn::MulAdd(r, hn::Set(d, 1.39261836e-3f), hn::Set(d, 8.36317905e-3f));
  p = hn::MulAdd(r, p, hn::Set(d, 4.16665546e-2f));
  p = hn::MulAdd(r, p, hn::Set(d, 1.66665770e-1f));
  p = hn::MulAdd(r, p, hn::Set(d, 0.5f));
  p = hn::MulAdd(hn::Mul(r, r), p, r);
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, biased)));
  return hn::MulAdd(p, scale, scale);
}

// Returns e^x for all x <= 88, and zero for x below -87.3, where e^x would be subnormal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const V lowest = hn::Set(d, -87.3f);
  // A comparison with NaN is false, so that NaN stays NaN. Max treats NaN differently on different
  // instruction sets.
  const auto underflows = hn::Lt(x, lowest);
  return hn::IfThenZeroElse(underflows, ExpInRange(d, hn::IfThenElse(underflows, lowest, x)));
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
