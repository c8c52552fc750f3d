// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/gemm/widen.h"

#include <cstddef>

#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/widen.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void Widen(size_t n, const T* HWY_RESTRICT from, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(LoadElements(d, from + i), d, to + i);
  if (i < n) StoreFirstElements(LoadFirstElements(d, from + i, n - i), d, to + i, n - i);
}

// Rows [begin, end).
void WidenPiece(int64_t begin, int64_t end, int64_t cols, DType dtype, const void* from, int64_t ld,
                float* to) {
  WithElementType(dtype, [&](auto element) HWY_ATTR {
    const auto* rows = static_cast<const decltype(element)*>(from);
    for (int64_t row = begin; row < end; ++row)
      Widen(static_cast<size_t>(cols), rows + row * ld, to + row * cols);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(WidenPiece);

void WidenRows(int64_t rows, int64_t cols, DType dtype, const void* from, int64_t ld, float* to) {
  const auto widen = HWY_DYNAMIC_DISPATCH(WidenPiece);
  ParallelFor(rows, RowGrain(cols), [=](int64_t, int64_t begin, int64_t end) {
    widen(begin, end, cols, dtype, from, ld, to);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
