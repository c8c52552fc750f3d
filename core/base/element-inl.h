// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Loads and stores vectors of fp32 from and to memory of fp32, bf16 or fp16. Stores round to
// nearest even, with the bits of ToBFloat16 and ToFloat16.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_CORE_BASE_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_CORE_BASE_ELEMENT_INL_H_
#undef ZEROTH_CORE_BASE_ELEMENT_INL_H_
#else
#define ZEROTH_CORE_BASE_ELEMENT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

#include "zeroth/core/base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The conversions use integer arithmetic instead of the target's instructions, so that every target
// and ToFloat16 agree on the bits of NaNs. They convert between 16 bits in 32-bit lanes and a
// float's bits.

// Compares unsigned lanes below 2^31 as signed ones, which every target supports.
template <class D, class V>
HWY_INLINE hn::Mask<D> Above(D d, V value, uint32_t bound) {
  const hn::RebindToSigned<D> di;
  return hn::RebindMask(d,
                        hn::Gt(hn::BitCast(di, value), hn::Set(di, static_cast<int32_t>(bound))));
}

// value / 2^kShift to the nearest integer, ties to even.
template <int kShift, class D, class V>
HWY_INLINE V ShiftRightToNearest(D d, V value) {
  const V odd = hn::And(hn::ShiftRight<kShift>(value), hn::Set(d, 1u));
  return hn::ShiftRight<kShift>(hn::Add(hn::Add(value, odd), hn::Set(d, (1u << (kShift - 1)) - 1)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V WidenFloat16(D d, V half) {
  const hn::RebindToFloat<D> df;
  const V magnitude = hn::And(half, hn::Set(d, 0x7fffu));
  const V sign = hn::ShiftLeft<16>(hn::Xor(half, magnitude));
  const V shifted = hn::ShiftLeft<13>(magnitude);
  const V normal = hn::Add(shifted, hn::Set(d, 112u << 23));
  const V infinite_or_nan = hn::Or(shifted, hn::Set(d, 0x7f800000u));
  // A subnormal is a number of units of 2^-24. It is written into the mantissa of 2^-14, which is
  // then subtracted.
  const V smallest_normal = hn::Set(d, 113u << 23);
  const V subnormal = hn::BitCast(d, hn::Sub(hn::BitCast(df, hn::Or(shifted, smallest_normal)),
                                             hn::BitCast(df, smallest_normal)));
  V result = hn::IfThenElse(Above(d, magnitude, 0x03ffu), normal, subnormal);
  result = hn::IfThenElse(Above(d, magnitude, 0x7bffu), infinite_or_nan, result);
  return hn::Or(result, sign);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V NarrowToFloat16(D d, V bits) {
  const hn::RebindToFloat<D> df;
  const V magnitude = hn::And(bits, hn::Set(d, 0x7fffffffu));
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
  result = hn::IfThenElse(Above(d, magnitude, 0x7f800000u), hn::Or(payload, hn::Set(d, 0x7e00u)),
                          result);
  return hn::Or(result, sign);
}

// 16 bits a lane, to and from memory.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> LoadBits16(D /*d*/, const void* from) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  return hn::PromoteTo(d32, hn::LoadU(d16, static_cast<const uint16_t*>(from)));
}
template <class D, class V32>
HWY_INLINE void StoreBits16(D /*d*/, V32 bits, void* to) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, bits)), d16, static_cast<uint16_t*>(to));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const BFloat16* from) {
  return hn::BitCast(d, hn::ShiftLeft<16>(LoadBits16(d, from)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadElements(D d, const Float16* from) {
  return hn::BitCast(d, WidenFloat16(hn::RebindToUnsigned<D>(), LoadBits16(d, from)));
}

template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, float* to) {
  hn::StoreU(v, d, to);
}
// Through Highway's integers: its own demotion to bf16 truncates.
template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, BFloat16* to) {
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::BitCast(d32, v);
  // Rounding could carry a NaN's payload into infinity: truncate and make it quiet.
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, 0x40u));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  StoreBits16(d, hn::IfThenElse(is_nan, quiet, ShiftRightToNearest<16>(d32, bits)), to);
}
template <class D>
HWY_INLINE void StoreElements(hn::Vec<D> v, D d, Float16* to) {
  const hn::RebindToUnsigned<D> d32;
  StoreBits16(d, NarrowToFloat16(d32, hn::BitCast(d32, v)), to);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
