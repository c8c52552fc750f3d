// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/widen.h"

#include <cstddef>

#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/widen.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void WidenRow(size_t n, const BFloat16* HWY_RESTRICT from, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(LoadElements(d, from + i), d, to + i);
  if (i < n) StoreFirstElements(LoadFirstElements(d, from + i, n - i), d, to + i, n - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(WidenRow);

void WidenRows(int64_t rows, int64_t cols, const BFloat16* from, int64_t ld, float* to) {
  const auto widen = HWY_DYNAMIC_DISPATCH(WidenRow);
  ParallelFor(rows, RowGrain(cols), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      widen(static_cast<size_t>(cols), from + row * ld, to + row * cols);
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
