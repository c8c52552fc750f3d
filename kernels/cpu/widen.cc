// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/widen.h"

#include <cstddef>

#include "zeroth/kernels/cpu/by_element_type.h"
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

template <typename T>
HWY_INLINE void Widen(size_t n, const T* HWY_RESTRICT from, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(LoadElements(d, from + i), d, to + i);
  if (i < n) StoreFirstElements(LoadFirstElements(d, from + i, n - i), d, to + i, n - i);
}

// HWY_EXPORT takes the name of a function.
void WidenRowF32(size_t n, const void* from, float* to) {
  Widen(n, static_cast<const float*>(from), to);
}
void WidenRowBF16(size_t n, const void* from, float* to) {
  Widen(n, static_cast<const BFloat16*>(from), to);
}
void WidenRowF16(size_t n, const void* from, float* to) {
  Widen(n, static_cast<const Float16*>(from), to);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(WidenRowF32);
HWY_EXPORT(WidenRowBF16);
HWY_EXPORT(WidenRowF16);

void WidenRows(int64_t rows, int64_t cols, DType dtype, const void* from, int64_t ld, float* to) {
  const auto widen =
      ByElementType(dtype, HWY_DYNAMIC_DISPATCH(WidenRowF32), HWY_DYNAMIC_DISPATCH(WidenRowBF16),
                    HWY_DYNAMIC_DISPATCH(WidenRowF16));
  const int64_t row_bytes = ld * static_cast<int64_t>(SizeOf(dtype));
  ParallelFor(rows, RowGrain(cols), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      widen(static_cast<size_t>(cols), static_cast<const char*>(from) + row * row_bytes,
            to + row * cols);
    }
  });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
