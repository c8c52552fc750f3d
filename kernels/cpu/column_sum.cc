// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/column_sum.h"

#include <algorithm>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/column_sum.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// sums[cols] = sum of rows [begin, end) of x. Adds four rows at a time, because each update of
// `sums` costs a load and a store.
template <typename T>
HWY_INLINE void SumRows(int64_t begin, int64_t end, int64_t cols, int64_t stride, const void* x,
                        float* sums) {
  const size_t width = static_cast<size_t>(cols);
  const T* row = static_cast<const T*>(x) + begin * stride;
  std::fill_n(sums, cols, 0.0f);
  int64_t left = end - begin;
  for (; left >= 4; left -= 4, row += 4 * stride) {
    Transform(
        width, sums,
        [](auto, auto sum, auto a, auto b, auto c, auto e)
            HWY_ATTR { return hn::Add(sum, hn::Add(hn::Add(a, b), hn::Add(c, e))); },
        sums, row, row + stride, row + 2 * stride, row + 3 * stride);
  }
  for (; left > 0; --left, row += stride) {
    Transform(
        width, sums, [](auto, auto sum, auto a) HWY_ATTR { return hn::Add(sum, a); }, sums, row);
  }
}

void SumAnyRows(int64_t begin, int64_t end, int64_t cols, int64_t stride, DType dtype,
                const void* x, float* sums) {
  WithElementType(dtype,
                  [&]<typename T>(T) HWY_ATTR { SumRows<T>(begin, end, cols, stride, x, sums); });
}

// out[cols] (+)= sum of the rows of `partial`. Sums a vector of columns in a register over all
// rows, so that `out` is rounded once.
template <typename T>
HWY_INLINE void AddPartial(int64_t rows, int64_t cols, int64_t stride, const float* partial,
                           bool accumulate, T* out) {
  ForVectors(static_cast<size_t>(cols), [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    const auto load = [=](int64_t row) HWY_ATTR {
      return LoadLanes<whole()>(d, partial + row * stride + i, count);
    };
    auto sum = accumulate ? LoadLanes<whole()>(d, out + i, count) : hn::Zero(d);
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      sum = hn::Add(
          sum, hn::Add(hn::Add(load(row), load(row + 1)), hn::Add(load(row + 2), load(row + 3))));
    }
    for (; row < rows; ++row) sum = hn::Add(sum, load(row));
    StoreLanes<whole()>(sum, d, out + i, count);
  });
}

void AddAnyPartial(int64_t rows, int64_t cols, int64_t stride, const float* partial,
                   bool accumulate, DType dtype, void* out) {
  WithElementType(dtype, [&]<typename T>(T) HWY_ATTR {
    AddPartial(rows, cols, stride, partial, accumulate, static_cast<T*>(out));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(SumAnyRows);
HWY_EXPORT(AddAnyPartial);

int64_t BlockRows(int64_t rows) {
  constexpr int64_t kMostBlocks = 16;  // more threads than that would gain little
  constexpr int64_t kFewestRows = 16;
  return std::max(kFewestRows, (rows + kMostBlocks - 1) / kMostBlocks);
}

int64_t BlockCount(int64_t rows) { return (rows + BlockRows(rows) - 1) / BlockRows(rows); }

void AddBlocks(int64_t blocks, int64_t cols, int64_t stride, const float* partial, bool accumulate,
               DType out_dtype, void* out) {
  HWY_DYNAMIC_DISPATCH(AddAnyPartial)(blocks, cols, stride, partial, accumulate, out_dtype, out);
}

absl::Status ColumnSum(int64_t rows, int64_t cols, int64_t stride, DType dtype, const void* x,
                       bool accumulate, DType out_dtype, void* out, Workspace& workspace) {
  const int64_t blocks = BlockCount(rows);
  ZEROTH_ASSIGN_OR_RETURN(float* partial, workspace.ReserveFloats(blocks * cols));
  const auto sum_rows = HWY_DYNAMIC_DISPATCH(SumAnyRows);
  ParallelFor(rows, BlockRows(rows), [=](int64_t block, int64_t begin, int64_t end) {
    sum_rows(begin, end, cols, stride, dtype, x, partial + block * cols);
  });
  AddBlocks(blocks, cols, cols, partial, accumulate, out_dtype, out);
  return absl::OkStatus();
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
