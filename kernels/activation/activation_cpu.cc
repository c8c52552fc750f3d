// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>

#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation/activation_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/activation/activation-inl.h"
#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void GeluPiece(const GeluCall& call, int64_t begin, int64_t end) {
  TransformPiece(
      call.dtype, begin, end, call.out, [](auto d, auto v) HWY_ATTR { return GeluOf(d, v); },
      call.x);
}

void GeluBackwardPiece(const GeluCall& call, int64_t begin, int64_t end) {
  TransformPiece(
      call.dtype, begin, end, call.out,
      [](auto d, auto v, auto g) HWY_ATTR { return hn::Mul(g, GeluSlope(d, v)); }, call.x, call.dy);
}

void SwiGluRows(const SwiGluCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      const T* gate_up = static_cast<const T*>(call.gate_up) + row * 2 * call.hidden;
      Transform(
          static_cast<size_t>(call.hidden), static_cast<T*>(call.to) + row * call.hidden,
          [](auto d, auto gate, auto up) HWY_ATTR { return hn::Mul(SiluOf(d, gate), up); }, gate_up,
          gate_up + call.hidden);
    }
  });
}

void ClampedRows(const SwiGluCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      const T* gate_up = static_cast<const T*>(call.gate_up) + row * 2 * call.hidden;
      Transform(
          static_cast<size_t>(call.hidden), static_cast<T*>(call.to) + row * call.hidden,
          [limit = call.limit](auto d, auto gate, auto up) HWY_ATTR {
            const auto g = AtLeast(d, kSiluLowest, AtMost(d, limit, gate));
            const auto u = AtLeast(d, -limit, AtMost(d, limit, up));
            const auto z = hn::Mul(g, hn::Set(d, kClampedSwiGluFactor));
            return hn::Mul(TimesLogistic(d, g, z), hn::Add(u, hn::Set(d, 1.0f)));
          },
          gate_up, gate_up + call.hidden);
    }
  });
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

// With s = logistic(1.702 g): d/dg = (u + 1) s (1 + 1.702 g (1 - s)), d/du = g s.
template <class D, class V>
HWY_INLINE void ClampedGradient(D d, float limit, V raw_gate, V raw_up, V dout, V& dgate, V& dup) {
  const V one = hn::Set(d, 1.0f);
  const V high = hn::Set(d, limit);
  const V gate = AtLeast(d, kSiluLowest, AtMost(d, limit, raw_gate));
  const V up = AtLeast(d, -limit, AtMost(d, limit, raw_up));
  const V z = hn::Mul(gate, hn::Set(d, kClampedSwiGluFactor));
  V s = z;
  V complement = z;
  LogisticAndComplement(d, z, s, complement);
  const V scaled = hn::Mul(dout, s);
  dup = hn::IfThenZeroElse(hn::Gt(hn::Abs(raw_up), high), hn::Mul(scaled, gate));
  dgate = hn::IfThenZeroElse(hn::Gt(raw_gate, high), hn::Mul(hn::Mul(scaled, hn::Add(up, one)),
                                                             hn::MulAdd(z, complement, one)));
}

template <typename T>
HWY_INLINE void SwiGluBackwardRow(size_t hidden, float limit, const T* gate_up, const T* dout,
                                  T* dgate_up) {
  ForVectors(hidden, [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    auto dgate = hn::Zero(d);
    auto dup = hn::Zero(d);
    const auto gate = LoadLanes<whole()>(d, gate_up + i, count);
    const auto up = LoadLanes<whole()>(d, gate_up + hidden + i, count);
    const auto dy = LoadLanes<whole()>(d, dout + i, count);
    if (limit > 0) {
      ClampedGradient(d, limit, gate, up, dy, dgate, dup);
    } else {
      SwiGluGradient(d, gate, up, dy, dgate, dup);
    }
    StoreLanes<whole()>(dgate, d, dgate_up + i, count);
    StoreLanes<whole()>(dup, d, dgate_up + hidden + i, count);
  });
}

void SwiGluBackwardRows(const SwiGluCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      SwiGluBackwardRow(static_cast<size_t>(call.hidden), call.limit,
                        static_cast<const T*>(call.gate_up) + row * 2 * call.hidden,
                        static_cast<const T*>(call.dout) + row * call.hidden,
                        static_cast<T*>(call.to) + row * 2 * call.hidden);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(GeluPiece);
HWY_EXPORT(GeluBackwardPiece);
HWY_EXPORT(SwiGluRows);
HWY_EXPORT(ClampedRows);
HWY_EXPORT(SwiGluBackwardRows);

absl::Status Gelu(const GeluCall& call, CpuKernels&) {
  return ForPieces(call, call.dy == nullptr ? HWY_DYNAMIC_DISPATCH(GeluPiece)
                                            : HWY_DYNAMIC_DISPATCH(GeluBackwardPiece));
}
const OnCpu<Gelu> gelu;

absl::Status SwiGlu(const SwiGluCall& call, CpuKernels&) {
  return ForRows(call.rows, 2 * call.hidden, call,
                 call.dout != nullptr ? HWY_DYNAMIC_DISPATCH(SwiGluBackwardRows)
                 : call.limit > 0     ? HWY_DYNAMIC_DISPATCH(ClampedRows)
                                      : HWY_DYNAMIC_DISPATCH(SwiGluRows));
}
const OnCpu<SwiGlu> swiglu;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
