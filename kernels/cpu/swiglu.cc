// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/swiglu.h"

#include <cstddef>

#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/swiglu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/activation-inl.h"
#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void SwiGluRow(size_t hidden, const float* gate_up, float* out) {
  Transform(
      hidden, out,
      [](auto d, auto gate, auto up) HWY_ATTR {
        const auto bounded = AtLeast(d, kSiluLowest, gate);
        return hn::Mul(TimesLogistic(d, bounded, bounded), up);
      },
      gate_up, gate_up + hidden);
}

// With s = logistic(gate): d/dgate = up s (1 + gate (1 - s)), d/dup = gate s.
template <class D, class V>
HWY_INLINE void SwiGluGradient(D d, V raw_gate, V up, V dout, V& dgate, V& dup) {
  const V gate = AtLeast(d, kSiluLowest, raw_gate);
  V s = gate;
  V complement = gate;
  LogisticAndComplement(d, gate, s, complement);
  const V scaled = hn::Mul(dout, s);
  dup = hn::Mul(scaled, gate);
  dgate = hn::Mul(hn::Mul(scaled, up), hn::MulAdd(gate, complement, hn::Set(d, 1.0f)));
}

void SwiGluBackwardRow(size_t hidden, const float* gate_up, const float* dout, float* dgate_up) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto dgate = hn::Zero(d);
  auto dup = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= hidden; i += lanes) {
    SwiGluGradient(d, hn::LoadU(d, gate_up + i), hn::LoadU(d, gate_up + hidden + i),
                   hn::LoadU(d, dout + i), dgate, dup);
    hn::StoreU(dgate, d, dgate_up + i);
    hn::StoreU(dup, d, dgate_up + hidden + i);
  }
  if (i == hidden) return;
  const size_t rest = hidden - i;
  SwiGluGradient(d, LoadFirst(d, gate_up + i, rest), LoadFirst(d, gate_up + hidden + i, rest),
                 LoadFirst(d, dout + i, rest), dgate, dup);
  StoreFirst(dgate, d, dgate_up + i, rest);
  StoreFirst(dup, d, dgate_up + hidden + i, rest);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(SwiGluRow);
HWY_EXPORT(SwiGluBackwardRow);

void SwiGlu(int64_t rows, int64_t hidden, const float* gate_up, float* out) {
  ParallelFor(rows, RowGrain(2 * hidden), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      HWY_DYNAMIC_DISPATCH(SwiGluRow)
      (static_cast<size_t>(hidden), gate_up + row * 2 * hidden, out + row * hidden);
    }
  });
}

void SwiGluBackward(int64_t rows, int64_t hidden, const float* gate_up, const float* dout,
                    float* dgate_up) {
  ParallelFor(rows, RowGrain(2 * hidden), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      HWY_DYNAMIC_DISPATCH(SwiGluBackwardRow)
      (static_cast<size_t>(hidden), gate_up + row * 2 * hidden, dout + row * hidden,
       dgate_up + row * 2 * hidden);
    }
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
