// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The 16-bit floats, in vectors.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_CPU_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_CPU_HALF_INL_H_
#undef ZEROTH_KERNELS_CPU_HALF_INL_H_
#else
#define ZEROTH_KERNELS_CPU_HALF_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Integer arithmetic rather than the conversions of the target, so that every target and ToFloat16
// agree on the bits of NaNs. One format per struct: Widen and Narrow between its 16 bits, in 32-bit
// lanes, and the bits of a float.

// value / 2^kShift to the nearest integer, ties to even.
template <int kShift, class D, class V>
HWY_INLINE V ShiftRightToNearest(D d, V value) {
  const V odd = hn::And(hn::ShiftRight<kShift>(value), hn::Set(d, 1u));
  return hn::ShiftRight<kShift>(hn::Add(hn::Add(value, odd), hn::Set(d, (1u << (kShift - 1)) - 1)));
}

// Unsigned lanes below 2^31, compared as signed ones, which every target can.
template <class D, class V>
HWY_INLINE hn::Mask<D> Above(D d, V value, uint32_t bound) {
  const hn::RebindToSigned<D> di;
  return hn::RebindMask(d,
                        hn::Gt(hn::BitCast(di, value), hn::Set(di, static_cast<int32_t>(bound))));
}

constexpr uint32_t kMagnitude = 0x7fffffffu;
constexpr uint32_t kInfinity = 0x7f800000u;

struct BFloat16Format {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Widen(D, V half) {
    return hn::ShiftLeft<16>(half);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Narrow(D d, V bits) {
    // Rounding could carry a NaN's payload into infinity: truncate and make it quiet.
    const V nan = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d, 0x40u));
    const auto is_nan = Above(d, hn::And(bits, hn::Set(d, kMagnitude)), kInfinity);
    return hn::IfThenElse(is_nan, nan, ShiftRightToNearest<16>(d, bits));
  }
};

struct Float16Format {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Widen(D d, V half) {
    const hn::RebindToFloat<D> df;
    const V magnitude = hn::And(half, hn::Set(d, 0x7fffu));
    const V sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
    const V shifted = hn::ShiftLeft<13>(magnitude);
    const V normal = hn::Add(shifted, hn::Set(d, 112u << 23));
    const V infinite_or_nan = hn::Or(shifted, hn::Set(d, kInfinity));
    // A subnormal counts units of 2^-24: written into the mantissa of 2^-14, that number is taken
    // off again.
    const V smallest_normal = hn::Set(d, 113u << 23);
    const V subnormal = hn::BitCast(d, hn::Sub(hn::BitCast(df, hn::Or(shifted, smallest_normal)),
                                               hn::BitCast(df, smallest_normal)));
    V result = hn::IfThenElse(Above(d, magnitude, 0x03ffu), normal, subnormal);
    result = hn::IfThenElse(Above(d, magnitude, 0x7bffu), infinite_or_nan, result);
    return hn::Or(result, sign);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V Narrow(D d, V bits) {
    const hn::RebindToFloat<D> df;
    const V magnitude = hn::And(bits, hn::Set(d, kMagnitude));
    const V sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
    const V normal = ShiftRightToNearest<13>(d, hn::Sub(magnitude, hn::Set(d, 112u << 23)));
    // Adding 1/2, whose last mantissa bit weighs 2^-24, makes the addition round as the subnormal
    // must.
    const V half = hn::Set(d, 126u << 23);
    const V subnormal =
        hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, half))), half);
    const V payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 0x01ffu));
    V result = hn::IfThenElse(Above(d, magnitude, (113u << 23) - 1), normal, subnormal);
    result = hn::IfThenElse(Above(d, magnitude, 0x477fefffu), hn::Set(d, 0x7c00u),
                            result);  // from 65520 up
    result = hn::IfThenElse(Above(d, magnitude, kInfinity), hn::Or(payload, hn::Set(d, 0x7e00u)),
                            result);
    return hn::Or(result, sign);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
