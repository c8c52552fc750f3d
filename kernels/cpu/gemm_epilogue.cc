// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/gemm_epilogue.h"

#include <cstddef>

#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_epilogue.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/activation-inl.h"
#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <Activation kActivation, class D, class V>
HWY_INLINE V Activate(D d, V x) {
  if constexpr (kActivation == Activation::kGelu) {
    const V v = AtLeast(d, kGeluLowest, x);
    const V slope = hn::MulAdd(hn::Mul(v, v), hn::Set(d, kGeluCubic), hn::Set(d, kGeluLinear));
    return TimesLogistic(d, v, hn::Mul(v, slope));
  } else if constexpr (kActivation == Activation::kSilu) {
    const V v = AtLeast(d, kSiluLowest, x);
    return TimesLogistic(d, v, v);
  } else {
    return x;
  }
}

template <Activation kActivation>
void Row(size_t n, const float* bias, float* c) {
  if (bias == nullptr) {
    Transform(
        n, c, [](auto d, auto x) HWY_ATTR { return Activate<kActivation>(d, x); }, c);
  } else {
    Transform(
        n, c,
        [](auto d, auto x, auto shift)
            HWY_ATTR { return Activate<kActivation>(d, hn::Add(x, shift)); },
        c, bias);
  }
}

void BiasActivationRow(size_t n, const float* bias, Activation activation, float* c) {
  switch (activation) {
    case Activation::kNone:
      return Row<Activation::kNone>(n, bias, c);
    case Activation::kGelu:
      return Row<Activation::kGelu>(n, bias, c);
    case Activation::kSilu:
      return Row<Activation::kSilu>(n, bias, c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(BiasActivationRow);

void BiasActivation(int64_t m, int64_t n, const float* bias, Activation activation, float* c,
                    int64_t ldc) {
  if (bias == nullptr && activation == Activation::kNone) return;
  const auto row = HWY_DYNAMIC_DISPATCH(BiasActivationRow);
  ParallelFor(m, RowGrain(n), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      row(static_cast<size_t>(n), bias, activation, c + i * ldc);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
