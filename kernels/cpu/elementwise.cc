// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/elementwise.h"

#include <cstddef>
#include <cstring>

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

void AddPiece(size_t n, const float* a, const float* b, float* out) {
  Transform(
      n, out, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}

void ScalePiece(size_t n, float factor, float* x) {
  Transform(
      n, x, [factor](auto d, auto v) HWY_ATTR { return hn::Mul(v, hn::Set(d, factor)); }, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(AddPiece);
HWY_EXPORT(ScalePiece);

void Add(int64_t n, const float* a, const float* b, float* out) {
  ParallelFor(n, kElementGrain, [=](int64_t, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(AddPiece)
    (static_cast<size_t>(end - begin), a + begin, b + begin, out + begin);
  });
}

void Scale(int64_t n, float factor, float* x) {
  ParallelFor(n, kElementGrain, [=](int64_t, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(ScalePiece)(static_cast<size_t>(end - begin), factor, x + begin);
  });
}

void FillZero(int64_t n, float* x) {
  ParallelFor(n, kElementGrain, [=](int64_t, int64_t begin, int64_t end) {
    std::memset(x + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
