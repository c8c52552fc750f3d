// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/cast.h"

#include <cstddef>
#include <cstring>

#include "zeroth/core/base/check.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cast.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

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

template <class Format, class D>
HWY_INLINE hn::Vec<D> LoadBits(D d, const uint16_t* from) {
  const hn::Rebind<uint16_t, D> d16;
  return Format::Widen(d, hn::PromoteTo(d, hn::LoadU(d16, from)));
}
template <class Format, class D>
HWY_INLINE hn::Vec<D> LoadBits(D d, const uint32_t* from) {
  return hn::LoadU(d, from);
}

template <class Format, class D>
HWY_INLINE void StoreBits(D d, hn::Vec<D> bits, uint16_t* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToSigned<D> di;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, Format::Narrow(d, bits))), d16, to);
}
template <class Format, class D>
HWY_INLINE void StoreBits(D d, hn::Vec<D> bits, uint32_t* to) {
  hn::StoreU(bits, d, to);
}

struct Float32Format {};

template <class From, class To, typename Src, typename Dst>
HWY_INLINE void Convert(size_t n, const void* src, void* dst) {
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  const Src* from = static_cast<const Src*>(src);
  Dst* to = static_cast<Dst*>(dst);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    StoreBits<To>(d, LoadBits<From>(d, from + i), to + i);
  }
  if (i == n) return;
  Src from_tail[HWY_MAX_BYTES / sizeof(uint32_t)] = {};
  Dst to_tail[HWY_MAX_BYTES / sizeof(uint32_t)];
  std::memcpy(from_tail, from + i, (n - i) * sizeof(Src));
  StoreBits<To>(d, LoadBits<From>(d, from_tail), to_tail);
  std::memcpy(to + i, to_tail, (n - i) * sizeof(Dst));
}

void Float32ToBFloat16(size_t n, const void* src, void* dst) {
  Convert<Float32Format, BFloat16Format, uint32_t, uint16_t>(n, src, dst);
}
void Float32ToFloat16(size_t n, const void* src, void* dst) {
  Convert<Float32Format, Float16Format, uint32_t, uint16_t>(n, src, dst);
}
void BFloat16ToFloat32(size_t n, const void* src, void* dst) {
  Convert<BFloat16Format, Float32Format, uint16_t, uint32_t>(n, src, dst);
}
void BFloat16ToFloat16(size_t n, const void* src, void* dst) {
  Convert<BFloat16Format, Float16Format, uint16_t, uint16_t>(n, src, dst);
}
void Float16ToFloat32(size_t n, const void* src, void* dst) {
  Convert<Float16Format, Float32Format, uint16_t, uint32_t>(n, src, dst);
}
void Float16ToBFloat16(size_t n, const void* src, void* dst) {
  Convert<Float16Format, BFloat16Format, uint16_t, uint16_t>(n, src, dst);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(Float32ToBFloat16);
HWY_EXPORT(Float32ToFloat16);
HWY_EXPORT(BFloat16ToFloat32);
HWY_EXPORT(BFloat16ToFloat16);
HWY_EXPORT(Float16ToFloat32);
HWY_EXPORT(Float16ToBFloat16);

namespace {

using Conversion = void (*)(size_t n, const void* src, void* dst);

Conversion FindConversion(DType from, DType to) {
  if (from == DType::kFloat32 && to == DType::kBFloat16)
    return HWY_DYNAMIC_DISPATCH(Float32ToBFloat16);
  if (from == DType::kFloat32 && to == DType::kFloat16)
    return HWY_DYNAMIC_DISPATCH(Float32ToFloat16);
  if (from == DType::kBFloat16 && to == DType::kFloat32)
    return HWY_DYNAMIC_DISPATCH(BFloat16ToFloat32);
  if (from == DType::kBFloat16 && to == DType::kFloat16)
    return HWY_DYNAMIC_DISPATCH(BFloat16ToFloat16);
  if (from == DType::kFloat16 && to == DType::kFloat32)
    return HWY_DYNAMIC_DISPATCH(Float16ToFloat32);
  if (from == DType::kFloat16 && to == DType::kBFloat16)
    return HWY_DYNAMIC_DISPATCH(Float16ToBFloat16);
  return nullptr;
}

}  // namespace

void Cast(int64_t n, DType from, const void* src, DType to, void* dst) {
  const Conversion convert = FindConversion(from, to);
  ZEROTH_CHECK(convert != nullptr || from == to);
  const size_t src_size = SizeOf(from);
  const size_t dst_size = SizeOf(to);
  ParallelFor(n, kElementGrain, [=](int64_t, int64_t begin, int64_t end) {
    const char* piece_src = static_cast<const char*>(src) + static_cast<size_t>(begin) * src_size;
    char* piece_dst = static_cast<char*>(dst) + static_cast<size_t>(begin) * dst_size;
    const size_t count = static_cast<size_t>(end - begin);
    if (convert == nullptr) {
      std::memcpy(piece_dst, piece_src, count * src_size);
    } else {
      convert(count, piece_src, piece_dst);
    }
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
