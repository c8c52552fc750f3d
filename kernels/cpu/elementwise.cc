// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/elementwise.h"

#include <cstddef>
#include <cstring>

#include "zeroth/kernels/cpu/by_element_type.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void AddPiece(int64_t begin, int64_t end, const void* a, const void* b, void* out) {
  Transform(
      static_cast<size_t>(end - begin), static_cast<T*>(out) + begin,
      [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, static_cast<const T*>(a) + begin,
      static_cast<const T*>(b) + begin);
}

template <typename T>
HWY_INLINE void ScalePiece(int64_t begin, int64_t end, float factor, void* x) {
  T* piece = static_cast<T*>(x) + begin;
  Transform(
      static_cast<size_t>(end - begin), piece,
      [factor](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, factor)); }, piece);
}

template <typename T>
HWY_INLINE void LerpPiece(int64_t begin, int64_t end, float weight, const void* target, void* x) {
  T* piece = static_cast<T*>(x) + begin;
  Transform(
      static_cast<size_t>(end - begin), piece,
      [weight](auto d, auto from, auto to)
          HWY_ATTR { return hn::Add(from, hn::Mul(hn::Set(d, weight), hn::Sub(to, from))); },
      piece, static_cast<const T*>(target) + begin);
}

// HWY_EXPORT takes the name of a function.
void AddF32(int64_t begin, int64_t end, const void* a, const void* b, void* out) {
  AddPiece<float>(begin, end, a, b, out);
}
void AddBF16(int64_t begin, int64_t end, const void* a, const void* b, void* out) {
  AddPiece<BFloat16>(begin, end, a, b, out);
}
void AddF16(int64_t begin, int64_t end, const void* a, const void* b, void* out) {
  AddPiece<Float16>(begin, end, a, b, out);
}
void ScaleF32(int64_t begin, int64_t end, float factor, void* x) {
  ScalePiece<float>(begin, end, factor, x);
}
void ScaleBF16(int64_t begin, int64_t end, float factor, void* x) {
  ScalePiece<BFloat16>(begin, end, factor, x);
}
void ScaleF16(int64_t begin, int64_t end, float factor, void* x) {
  ScalePiece<Float16>(begin, end, factor, x);
}
void LerpF32(int64_t begin, int64_t end, float weight, const void* target, void* x) {
  LerpPiece<float>(begin, end, weight, target, x);
}
void LerpBF16(int64_t begin, int64_t end, float weight, const void* target, void* x) {
  LerpPiece<BFloat16>(begin, end, weight, target, x);
}
void LerpF16(int64_t begin, int64_t end, float weight, const void* target, void* x) {
  LerpPiece<Float16>(begin, end, weight, target, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(AddF32);
HWY_EXPORT(AddBF16);
HWY_EXPORT(AddF16);
HWY_EXPORT(ScaleF32);
HWY_EXPORT(ScaleBF16);
HWY_EXPORT(ScaleF16);
HWY_EXPORT(LerpF32);
HWY_EXPORT(LerpBF16);
HWY_EXPORT(LerpF16);

void Add(int64_t n, DType dtype, const void* a, const void* b, void* out) {
  const auto piece = ByElementType(dtype, HWY_DYNAMIC_DISPATCH(AddF32),
                                   HWY_DYNAMIC_DISPATCH(AddBF16), HWY_DYNAMIC_DISPATCH(AddF16));
  ParallelFor(n, kElementGrain,
              [=](int64_t, int64_t begin, int64_t end) { piece(begin, end, a, b, out); });
}

void Scale(int64_t n, float factor, DType dtype, void* x) {
  const auto piece = ByElementType(dtype, HWY_DYNAMIC_DISPATCH(ScaleF32),
                                   HWY_DYNAMIC_DISPATCH(ScaleBF16), HWY_DYNAMIC_DISPATCH(ScaleF16));
  ParallelFor(n, kElementGrain,
              [=](int64_t, int64_t begin, int64_t end) { piece(begin, end, factor, x); });
}

void Lerp(int64_t n, float weight, DType dtype, const void* target, void* x) {
  const auto piece = ByElementType(dtype, HWY_DYNAMIC_DISPATCH(LerpF32),
                                   HWY_DYNAMIC_DISPATCH(LerpBF16), HWY_DYNAMIC_DISPATCH(LerpF16));
  ParallelFor(n, kElementGrain,
              [=](int64_t, int64_t begin, int64_t end) { piece(begin, end, weight, target, x); });
}

void FillZero(int64_t n, DType dtype, void* x) {
  const size_t size = SizeOf(dtype);
  ParallelFor(n, kElementGrain, [=](int64_t, int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(x) + static_cast<size_t>(begin) * size, 0,
                static_cast<size_t>(end - begin) * size);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
