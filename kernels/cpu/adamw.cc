// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/adamw.h"

#include <cmath>
#include <cstddef>

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

void AdamWPiece(size_t n, const AdamWCoefficients& c, float* HWY_RESTRICT param,
                const float* HWY_RESTRICT grad, float* HWY_RESTRICT m, float* HWY_RESTRICT v) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto next = Update(d, c, hn::LoadU(d, param + i), hn::LoadU(d, grad + i),
                             hn::LoadU(d, m + i), hn::LoadU(d, v + i));
    hn::StoreU(next.param, d, param + i);
    hn::StoreU(next.m, d, m + i);
    hn::StoreU(next.v, d, v + i);
  }
  if (i == n) return;
  const size_t rest = n - i;
  const auto next = Update(d, c, LoadFirst(d, param + i, rest), LoadFirst(d, grad + i, rest),
                           LoadFirst(d, m + i, rest), LoadFirst(d, v + i, rest));
  StoreFirst(next.param, d, param + i, rest);
  StoreFirst(next.m, d, m + i, rest);
  StoreFirst(next.v, d, v + i, rest);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(AdamWPiece);

AdamWCoefficients DeriveCoefficients(const AdamWArgs& args) {
  const double root_scale = 1.0 / std::sqrt(args.correction2);
  const double eps = args.eps_mode == EpsMode::kBeforeCorrection ? args.eps * root_scale : args.eps;
  AdamWCoefficients c;
  c.grad_scale = static_cast<float>(args.grad_scale);
  c.beta1 = static_cast<float>(args.beta1);
  c.one_minus_beta1 = static_cast<float>(1.0 - args.beta1);
  c.beta2 = static_cast<float>(args.beta2);
  c.one_minus_beta2 = static_cast<float>(1.0 - args.beta2);
  c.root_scale = static_cast<float>(root_scale);
  c.eps = static_cast<float>(eps);
  c.step = static_cast<float>(args.lr / args.correction1);
  c.decay = static_cast<float>(args.lr * args.weight_decay);
  return c;
}

void AdamW(int64_t n, const AdamWArgs& args, float* param, const float* grad, float* m, float* v) {
  const AdamWCoefficients c = DeriveCoefficients(args);
  ParallelFor(n, kElementGrain, [=](int64_t, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(AdamWPiece)
    (static_cast<size_t>(end - begin), c, param + begin, grad + begin, m + begin, v + begin);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
