// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/gelu.h"

#include <cstddef>

#include "zeroth/kernels/cpu/by_element_type.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gelu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/activation-inl.h"
#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void GeluPiece(int64_t begin, int64_t end, const void* x, void* y) {
  Transform(
      static_cast<size_t>(end - begin), static_cast<T*>(y) + begin,
      [](auto d, auto v) HWY_ATTR { return GeluOf(d, v); }, static_cast<const T*>(x) + begin);
}

template <typename T>
HWY_INLINE void GeluBackwardPiece(int64_t begin, int64_t end, const void* x, const void* dy,
                                  void* dx) {
  Transform(
      static_cast<size_t>(end - begin), static_cast<T*>(dx) + begin,
      [](auto d, auto v, auto g) HWY_ATTR { return hn::Mul(g, GeluSlope(d, v)); },
      static_cast<const T*>(x) + begin, static_cast<const T*>(dy) + begin);
}

// HWY_EXPORT takes the name of a function.
void GeluF32(int64_t begin, int64_t end, const void* x, void* y) {
  GeluPiece<float>(begin, end, x, y);
}
void GeluBF16(int64_t begin, int64_t end, const void* x, void* y) {
  GeluPiece<BFloat16>(begin, end, x, y);
}
void GeluF16(int64_t begin, int64_t end, const void* x, void* y) {
  GeluPiece<Float16>(begin, end, x, y);
}
void GeluBackwardF32(int64_t begin, int64_t end, const void* x, const void* dy, void* dx) {
  GeluBackwardPiece<float>(begin, end, x, dy, dx);
}
void GeluBackwardBF16(int64_t begin, int64_t end, const void* x, const void* dy, void* dx) {
  GeluBackwardPiece<BFloat16>(begin, end, x, dy, dx);
}
void GeluBackwardF16(int64_t begin, int64_t end, const void* x, const void* dy, void* dx) {
  GeluBackwardPiece<Float16>(begin, end, x, dy, dx);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(GeluF32);
HWY_EXPORT(GeluBF16);
HWY_EXPORT(GeluF16);
HWY_EXPORT(GeluBackwardF32);
HWY_EXPORT(GeluBackwardBF16);
HWY_EXPORT(GeluBackwardF16);

void Gelu(int64_t n, DType dtype, const void* x, void* y) {
  const auto piece = ByElementType(dtype, HWY_DYNAMIC_DISPATCH(GeluF32),
                                   HWY_DYNAMIC_DISPATCH(GeluBF16), HWY_DYNAMIC_DISPATCH(GeluF16));
  ParallelFor(n, kElementGrain,
              [=](int64_t, int64_t begin, int64_t end) { piece(begin, end, x, y); });
}

void GeluBackward(int64_t n, DType dtype, const void* x, const void* dy, void* dx) {
  const auto piece =
      ByElementType(dtype, HWY_DYNAMIC_DISPATCH(GeluBackwardF32),
                    HWY_DYNAMIC_DISPATCH(GeluBackwardBF16), HWY_DYNAMIC_DISPATCH(GeluBackwardF16));
  ParallelFor(n, kElementGrain,
              [=](int64_t, int64_t begin, int64_t end) { piece(begin, end, x, dy, dx); });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
