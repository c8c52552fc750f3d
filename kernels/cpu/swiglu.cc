// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/swiglu.h"

#include <cstddef>

#include "zeroth/kernels/cpu/by_element_type.h"
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

template <typename T>
HWY_INLINE void SwiGluRow(int64_t row, int64_t hidden, const void* packed, void* out) {
  const T* gate_up = static_cast<const T*>(packed) + row * 2 * hidden;
  Transform(
      static_cast<size_t>(hidden), static_cast<T*>(out) + row * hidden,
      [](auto d, auto gate, auto up) HWY_ATTR { return hn::Mul(SiluOf(d, gate), up); }, gate_up,
      gate_up + hidden);
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

template <typename T>
HWY_INLINE void SwiGluBackwardRow(size_t hidden, const T* gate_up, const T* dout, T* dgate_up) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto dgate = hn::Zero(d);
  auto dup = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= hidden; i += lanes) {
    SwiGluGradient(d, LoadElements(d, gate_up + i), LoadElements(d, gate_up + hidden + i),
                   LoadElements(d, dout + i), dgate, dup);
    StoreElements(dgate, d, dgate_up + i);
    StoreElements(dup, d, dgate_up + hidden + i);
  }
  if (i == hidden) return;
  const size_t rest = hidden - i;
  SwiGluGradient(d, LoadFirstElements(d, gate_up + i, rest),
                 LoadFirstElements(d, gate_up + hidden + i, rest),
                 LoadFirstElements(d, dout + i, rest), dgate, dup);
  StoreFirstElements(dgate, d, dgate_up + i, rest);
  StoreFirstElements(dup, d, dgate_up + hidden + i, rest);
}

template <typename T>
HWY_INLINE void SwiGluBackwardRowAt(int64_t row, int64_t hidden, const void* gate_up,
                                    const void* dout, void* dgate_up) {
  SwiGluBackwardRow(static_cast<size_t>(hidden), static_cast<const T*>(gate_up) + row * 2 * hidden,
                    static_cast<const T*>(dout) + row * hidden,
                    static_cast<T*>(dgate_up) + row * 2 * hidden);
}

// HWY_EXPORT takes the name of a function.
void SwiGluF32(int64_t row, int64_t hidden, const void* gate_up, void* out) {
  SwiGluRow<float>(row, hidden, gate_up, out);
}
void SwiGluBF16(int64_t row, int64_t hidden, const void* gate_up, void* out) {
  SwiGluRow<BFloat16>(row, hidden, gate_up, out);
}
void SwiGluF16(int64_t row, int64_t hidden, const void* gate_up, void* out) {
  SwiGluRow<Float16>(row, hidden, gate_up, out);
}
void SwiGluBackwardF32(int64_t row, int64_t hidden, const void* gate_up, const void* dout,
                       void* dgate_up) {
  SwiGluBackwardRowAt<float>(row, hidden, gate_up, dout, dgate_up);
}
void SwiGluBackwardBF16(int64_t row, int64_t hidden, const void* gate_up, const void* dout,
                        void* dgate_up) {
  SwiGluBackwardRowAt<BFloat16>(row, hidden, gate_up, dout, dgate_up);
}
void SwiGluBackwardF16(int64_t row, int64_t hidden, const void* gate_up, const void* dout,
                       void* dgate_up) {
  SwiGluBackwardRowAt<Float16>(row, hidden, gate_up, dout, dgate_up);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(SwiGluF32);
HWY_EXPORT(SwiGluBF16);
HWY_EXPORT(SwiGluF16);
HWY_EXPORT(SwiGluBackwardF32);
HWY_EXPORT(SwiGluBackwardBF16);
HWY_EXPORT(SwiGluBackwardF16);

void SwiGlu(int64_t rows, int64_t hidden, DType dtype, const void* gate_up, void* out) {
  const auto one_row =
      ByElementType(dtype, HWY_DYNAMIC_DISPATCH(SwiGluF32), HWY_DYNAMIC_DISPATCH(SwiGluBF16),
                    HWY_DYNAMIC_DISPATCH(SwiGluF16));
  ParallelFor(rows, RowGrain(2 * hidden), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) one_row(row, hidden, gate_up, out);
  });
}

void SwiGluBackward(int64_t rows, int64_t hidden, DType dtype, const void* gate_up,
                    const void* dout, void* dgate_up) {
  const auto one_row = ByElementType(dtype, HWY_DYNAMIC_DISPATCH(SwiGluBackwardF32),
                                     HWY_DYNAMIC_DISPATCH(SwiGluBackwardBF16),
                                     HWY_DYNAMIC_DISPATCH(SwiGluBackwardF16));
  ParallelFor(rows, RowGrain(2 * hidden), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) one_row(row, hidden, gate_up, dout, dgate_up);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
