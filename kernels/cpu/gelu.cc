// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/gelu.h"

#include <cstddef>

#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gelu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/activation-inl.h"
#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void GeluPiece(size_t n, const float* x, float* y) {
  Transform(
      n, y,
      [](auto d, auto raw) HWY_ATTR {
        const auto v = AtLeast(d, kGeluLowest, raw);
        const auto slope =
            hn::MulAdd(hn::Mul(v, v), hn::Set(d, kGeluCubic), hn::Set(d, kGeluLinear));
        return TimesLogistic(d, v, hn::Mul(v, slope));
      },
      x);
}

// With s = logistic(z(x)): gelu'(x) = s + x s (1 - s) z'(x) = s (1 + x z'(x) (1 - s)).
void GeluBackwardPiece(size_t n, const float* x, const float* dy, float* dx) {
  Transform(
      n, dx,
      [](auto d, auto raw, auto g) HWY_ATTR {
        // From -kGeluLowest up the derivative is one.
        const auto v = AtLeast(d, kGeluLowest, AtMost(d, -kGeluLowest, raw));
        const auto cubic = hn::Mul(hn::Mul(v, v), hn::Set(d, kGeluCubic));
        const auto z = hn::Mul(v, hn::Add(cubic, hn::Set(d, kGeluLinear)));
        const auto dz = hn::MulAdd(cubic, hn::Set(d, 3.0f), hn::Set(d, kGeluLinear));
        auto s = z;
        auto complement = z;
        LogisticAndComplement(d, z, s, complement);
        const auto inner = hn::MulAdd(hn::Mul(v, dz), complement, hn::Set(d, 1.0f));
        return hn::Mul(g, hn::Mul(s, inner));
      },
      x, dy);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(GeluPiece);
HWY_EXPORT(GeluBackwardPiece);

void Gelu(int64_t n, const float* x, float* y) {
  ParallelFor(n, kElementGrain, [=](int64_t, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(GeluPiece)(static_cast<size_t>(end - begin), x + begin, y + begin);
  });
}

void GeluBackward(int64_t n, const float* x, const float* dy, float* dx) {
  ParallelFor(n, kElementGrain, [=](int64_t, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(GeluBackwardPiece)
    (static_cast<size_t>(end - begin), x + begin, dy + begin, dx + begin);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
