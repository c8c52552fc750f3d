// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The draws of rounding.h in vectors, and stores that round by them.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_ADAMW_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_ADAMW_ROUNDING_INL_H_
#undef ZEROTH_KERNELS_ADAMW_ROUNDING_INL_H_
#else
#define ZEROTH_KERNELS_ADAMW_ROUNDING_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw/rounding.h"
#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The draws of each lane's element.
template <class V>
struct DrawVectors {
  V moments;  // lower half: first moment; upper half: second
  V params;   // lower half: parameter
};

#if HWY_TARGET == HWY_SCALAR

// Returns the draws of element `first`. One lane cannot hold two words.
template <class D, class V = hn::Vec<D>>
HWY_INLINE DrawVectors<V> Draw(D d, const RoundingKey& key, uint64_t stream, int64_t first) {
  const RoundingBits bits = RoundingBitsOf(key, stream, first);
  const uint32_t second = bits.second_moment;
  return {hn::Set(d, (second << 16) | bits.first_moment), hn::Set(d, uint32_t{bits.param})};
}

#else

// Returns the draws of elements [first, first + lanes) of a stream; `first` is even. A 64-bit lane
// computes the Philox block of two neighbours. Only the lower halves of lanes are words; products
// leave other bits in the upper halves.
template <class D, class V = hn::Vec<D>>
HWY_INLINE DrawVectors<V> Draw(D d, const RoundingKey& key, uint64_t stream, int64_t first) {
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
  return {pair(c0, c1), pair(c2, c3)};
}

#endif  // HWY_SCALAR

// Rounds v and stores it. The lower halves of `draws` decide the direction. fp32 is not rounded.
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

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
