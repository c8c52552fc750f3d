// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Vectorised: the draws of rounding.h, stores that round by them, and the codes of moment_codes.h.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_ADAMW_LOW_PRECISION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_ADAMW_LOW_PRECISION_INL_H_
#undef ZEROTH_KERNELS_ADAMW_LOW_PRECISION_INL_H_
#else
#define ZEROTH_KERNELS_ADAMW_LOW_PRECISION_INL_H_
#endif

#include <bit>
#include <cstdint>

#include "hwy/highway.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw/moment_codes.h"
#include "zeroth/kernels/adamw/rounding.h"
#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// Sets the rounding draws of element `first`: that of the first moment in the lower half of
// `moments` and that of the second in the upper half, and the parameter's in the lower half of
// `params`. The scalar target has no 64-bit lane for a Philox block.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void Draw(D d, const RoundingKey& key, uint64_t stream, int64_t first, V& moments,
                     V& params) {
  const RoundingBits bits = RoundingBitsOf(key, stream, first);
  const uint32_t second = bits.second_moment;
  moments = hn::Set(d, (second << 16) | bits.first_moment);
  params = hn::Set(d, uint32_t{bits.param});
}

#else

// Sets the rounding draws of elements [first, first + lanes) of a stream; `first` is even. Those of
// the first moment are in the lower halves of `moments` and those of the second in the upper ones,
// and those of parameters in the lower halves of `params`. A 64-bit lane computes the Philox block
// of two neighbours. Words are the lower halves of lanes; the upper halves hold leftover bits of
// multiplications.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void Draw(D d, const RoundingKey& key, uint64_t stream, int64_t first, V& moments,
                     V& params) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u;
  constexpr uint32_t kWeyl1 = 0xBB67AE85u;
  constexpr int kRounds = 10;
  const hn::Repartition<uint64_t, D> d64;
  using V64 = hn::Vec<decltype(d64)>;
  const auto times = [&](V64 x, uint32_t factor)
                         HWY_ATTR { return hn::MulEven(hn::BitCast(d, x), hn::Set(d, factor)); };
  const V64 block = hn::Iota(d64, static_cast<uint64_t>(first) / 2);
  V64 c0 = block;
  V64 c1 = hn::ShiftRight<32>(block);
  V64 c2 = hn::Set(d64, stream);
  V64 c3 = hn::Set(d64, stream >> 32);
  uint32_t k0 = key.low;
  uint32_t k1 = key.high;
  for (int round = 0; round < kRounds; ++round) {
    const V64 p0 = times(c0, kMultiplier0);
    const V64 p1 = times(c2, kMultiplier1);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d64, uint64_t{k0}));
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d64, uint64_t{k1}));
    c1 = p1;
    c3 = p0;
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  const V64 lower = hn::Set(d64, uint64_t{0xffffffffu});
  const auto pair = [&](V64 even, V64 odd) HWY_ATTR {
    return hn::BitCast(d, hn::Or(hn::And(even, lower), hn::ShiftLeft<32>(odd)));
  };
  moments = pair(c0, c1);
  params = pair(c2, c3);
}

#endif  // HWY_SCALAR

// Rounds v by the lower halves of `draws`, and stores it. fp32 is not rounded.
template <class D>
HWY_INLINE void StoreRounded(D d, hn::Vec<D> v, hn::Vec<hn::RebindToUnsigned<D>>, float* to) {
  hn::StoreU(v, d, to);
}

template <class D>
HWY_INLINE void StoreRounded(D, hn::Vec<D> v, hn::Vec<hn::RebindToUnsigned<D>> draws,
                             BFloat16* to) {
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, v);
  const auto rounded =
      hn::ShiftRight<16>(hn::Add(bits, hn::And(draws, hn::Set(d32, uint32_t{0xffffu}))));
  // A carry could move a NaN's payload into the sign, so a NaN is truncated and made quiet.
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(d32, uint32_t{0x40u}));
  const auto half = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, half)), d16, reinterpret_cast<uint16_t*>(to));
}

// Returns 2^exponent.
constexpr float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

template <class Code, class D>
HWY_INLINE hn::Vec<D> DecodeMoments(D d, const uint8_t* from, float scale) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  using VI = hn::Vec<decltype(di)>;
  const VI code = hn::PromoteTo(di, hn::LoadU(d8, from));
  const VI magnitude = Code::kSigned ? hn::And(code, hn::Set(di, 0x7f)) : code;
  const VI rebias = hn::Set(di, (127 - Code::kTopExponent) << 23);
  const auto normal = hn::BitCast(d, hn::Add(hn::ShiftLeft<Code::kDroppedBits>(magnitude), rebias));
  const auto subnormal =
      hn::Mul(hn::ConvertTo(d, magnitude),
              hn::Set(d, PowerOfTwo(1 - Code::kTopExponent - Code::kMantissaBits)));
  const auto below = hn::Lt(magnitude, hn::Set(di, static_cast<int32_t>(Code::kSmallestNormal)));
  auto value = hn::IfThenElse(hn::RebindMask(d, below), subnormal, normal);
  if (Code::kSigned) {
    const VI sign = hn::ShiftLeft<24>(hn::Sub(code, magnitude));
    value = hn::Or(value, hn::BitCast(d, sign));
  }
  return hn::Mul(value, hn::Set(d, scale));
}

// Stores the codes of `value`. `draws` are below 2^16; `inverse` is 1 / scale.
template <class Code, class D>
HWY_INLINE void EncodeMoments(D d, hn::Vec<D> value, hn::Vec<hn::RebindToSigned<D>> draws,
                              float inverse, uint8_t* to) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  using VI = hn::Vec<decltype(di)>;
  const auto ratio = hn::Mul(hn::Abs(value), hn::Set(d, inverse));
  const VI sum = hn::Add(hn::BitCast(di, ratio), hn::ShiftLeft<Code::kDroppedBits - 16>(draws));
  const VI rebias = hn::Set(di, (127 - Code::kTopExponent) << Code::kMantissaBits);
  const VI normal = hn::Sub(hn::ShiftRight<Code::kDroppedBits>(sum), rebias);
  const auto steps =
      hn::Mul(ratio, hn::Set(d, PowerOfTwo(Code::kTopExponent - 1 + Code::kMantissaBits)));
  const auto fraction = hn::Mul(hn::ConvertTo(d, draws), hn::Set(d, 0x1p-16f));
  const VI subnormal = hn::ConvertTo(di, hn::Add(steps, fraction));
  const auto below = hn::Lt(ratio, hn::Set(d, PowerOfTwo(1 - Code::kTopExponent)));
  VI code = hn::IfThenElse(hn::RebindMask(di, below), subnormal, normal);
  if (Code::kSigned) {
    const hn::RebindToUnsigned<D> du;
    const auto sign = hn::ShiftLeft<7>(hn::ShiftRight<31>(hn::BitCast(du, value)));
    code = hn::Or(code, hn::BitCast(di, sign));
  } else {
    const VI positive =
        hn::IfThenElseZero(hn::RebindMask(di, hn::Gt(value, hn::Zero(d))), hn::Set(di, 1));
    code = hn::Max(code, positive);
  }
  hn::StoreU(hn::DemoteTo(d8, code), d8, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
