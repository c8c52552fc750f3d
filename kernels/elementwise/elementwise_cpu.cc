// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/elementwise/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/elementwise_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void AddPiece(const AddCall& call, int64_t begin, int64_t end) {
  TransformPiece(
      call.dtype, begin, end, call.out, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); },
      call.a, call.b);
}

void ScalePiece(const ScaleCall& call, int64_t begin, int64_t end) {
  const float factor = call.factor;
  TransformPiece(
      call.dtype, begin, end, call.x,
      [factor](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, factor)); }, call.x);
}

// Converts between types. Within one type it copies, which preserves even the bits of NaN.
void CastPiece(const CastCall& call, int64_t begin, int64_t end) {
  WithElementType(call.from, [&]<typename From>(From) HWY_ATTR {
    WithElementType(call.to, [&]<typename To>(To) HWY_ATTR {
      const From* src = static_cast<const From*>(call.src) + begin;
      To* dst = static_cast<To*>(call.dst) + begin;
      const size_t count = static_cast<size_t>(end - begin);
      if constexpr (std::is_same_v<From, To>) {
        std::memcpy(dst, src, count * sizeof(*src));
      } else {
        Convert(count, dst, src);
      }
    });
  });
}

void LerpPiece(const LerpCall& call, int64_t begin, int64_t end) {
  const float weight = call.weight;
  TransformPiece(
      call.dtype, begin, end, call.x,
      [weight](auto d, auto from, auto to)
          HWY_ATTR { return hn::Add(from, hn::Mul(hn::Set(d, weight), hn::Sub(to, from))); },
      call.x, call.target);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(AddPiece);
HWY_EXPORT(ScalePiece);
HWY_EXPORT(LerpPiece);
HWY_EXPORT(CastPiece);

absl::Status Add(const AddCall& call, CpuKernels&) {
  return ForPieces(call, HWY_DYNAMIC_DISPATCH(AddPiece));
}
const OnCpu<Add> add;

absl::Status Scale(const ScaleCall& call, CpuKernels&) {
  return ForPieces(call, HWY_DYNAMIC_DISPATCH(ScalePiece));
}
const OnCpu<Scale> scale;

absl::Status Lerp(const LerpCall& call, CpuKernels&) {
  return ForPieces(call, HWY_DYNAMIC_DISPATCH(LerpPiece));
}
const OnCpu<Lerp> lerp;

absl::Status Cast(const CastCall& call, CpuKernels&) {
  return ForPieces(call, HWY_DYNAMIC_DISPATCH(CastPiece));
}
const OnCpu<Cast> cast;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
