// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/elementwise/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/cast_cpu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

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

// How elements of a type lie in memory, and what widens and narrows them.
template <typename T>
struct FormatOf {
  using Format = Float32Format;
  using Bits = uint32_t;
};
template <>
struct FormatOf<BFloat16> {
  using Format = BFloat16Format;
  using Bits = uint16_t;
};
template <>
struct FormatOf<Float16> {
  using Format = Float16Format;
  using Bits = uint16_t;
};

template <typename From, typename To>
HWY_INLINE void Convert(size_t n, const typename FormatOf<From>::Bits* from,
                        typename FormatOf<To>::Bits* to) {
  using FromFormat = typename FormatOf<From>::Format;
  using ToFormat = typename FormatOf<To>::Format;
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    StoreBits<ToFormat>(d, LoadBits<FromFormat>(d, from + i), to + i);
  }
  if (i == n) return;
  typename FormatOf<From>::Bits from_tail[HWY_MAX_BYTES / sizeof(uint32_t)] = {};
  typename FormatOf<To>::Bits to_tail[HWY_MAX_BYTES / sizeof(uint32_t)];
  std::memcpy(from_tail, from + i, (n - i) * sizeof(*from));
  StoreBits<ToFormat>(d, LoadBits<FromFormat>(d, from_tail), to_tail);
  std::memcpy(to + i, to_tail, (n - i) * sizeof(*to));
}

void CastPiece(const CastCall& call, int64_t begin, int64_t end) {
  WithElementType(call.from, [&](auto from) HWY_ATTR {
    WithElementType(call.to, [&](auto to) HWY_ATTR {
      using From = decltype(from);
      using To = decltype(to);
      const auto* src = static_cast<const typename FormatOf<From>::Bits*>(call.src) + begin;
      auto* dst = static_cast<typename FormatOf<To>::Bits*>(call.dst) + begin;
      const size_t count = static_cast<size_t>(end - begin);
      if constexpr (std::is_same_v<From, To>) {
        std::memcpy(dst, src, count * sizeof(*src));
      } else {
        Convert<From, To>(count, src, dst);
      }
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(CastPiece);

absl::Status Cast(const CastCall& call, CpuKernels&) {
  return ForPieces(call, HWY_DYNAMIC_DISPATCH(CastPiece));
}
const OnCpu<Cast> cast;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
