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
