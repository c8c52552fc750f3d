// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The codes of moment_codes.h in vectors.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_ADAMW_MOMENT_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_ADAMW_MOMENT_CODES_INL_H_
#undef ZEROTH_KERNELS_ADAMW_MOMENT_CODES_INL_H_
#else
#define ZEROTH_KERNELS_ADAMW_MOMENT_CODES_INL_H_
#endif

#include <bit>
#include <cstdint>

#include "hwy/highway.h"

#include "zeroth/kernels/adamw/moment_codes.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 2^exponent.
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

// `draws` are below 2^16; `inverse` is 1 / scale.
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
