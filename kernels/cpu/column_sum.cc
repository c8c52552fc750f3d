// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/column_sum.h"

#include <algorithm>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/column_sum.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// out[cols] (+)= sum of the rows. Four rows at a time, because each trip to `out` costs a load and
// a store.
void SumRows(size_t rows, size_t cols, size_t stride, const float* x, bool accumulate, float* out) {
  if (!accumulate) std::fill(out, out + cols, 0.0f);
  size_t row = 0;
  for (; row + 4 <= rows; row += 4, x += 4 * stride) {
    Transform(
        cols, out,
        [](auto, auto sum, auto a, auto b, auto c, auto e)
            HWY_ATTR { return hn::Add(sum, hn::Add(hn::Add(a, b), hn::Add(c, e))); },
        out, x, x + stride, x + 2 * stride, x + 3 * stride);
  }
  for (; row < rows; ++row, x += stride) {
    Transform(
        cols, out, [](auto, auto sum, auto a) HWY_ATTR { return hn::Add(sum, a); }, out, x);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(SumRows);

int64_t BlockRows(int64_t rows) {
  constexpr int64_t kMostBlocks = 16;  // what more than that many threads could gain is little
  constexpr int64_t kFewestRows = 16;
  return std::max(kFewestRows, (rows + kMostBlocks - 1) / kMostBlocks);
}

int64_t BlockCount(int64_t rows) { return (rows + BlockRows(rows) - 1) / BlockRows(rows); }

void AddBlocks(int64_t blocks, int64_t cols, int64_t stride, const float* partial, bool accumulate,
               float* out) {
  HWY_DYNAMIC_DISPATCH(SumRows)
  (static_cast<size_t>(blocks), static_cast<size_t>(cols), static_cast<size_t>(stride), partial,
   accumulate, out);
}

absl::Status ColumnSum(int64_t rows, int64_t cols, int64_t stride, const float* x, bool accumulate,
                       float* out, Workspace& workspace) {
  const int64_t blocks = BlockCount(rows);
  ZEROTH_ASSIGN_OR_RETURN(float* partial, workspace.ReserveFloats(blocks * cols));
  ParallelFor(rows, BlockRows(rows), [=](int64_t block, int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(SumRows)
    (static_cast<size_t>(end - begin), static_cast<size_t>(cols), static_cast<size_t>(stride),
     x + begin * stride,
     /*accumulate=*/false, partial + block * cols);
  });
  AddBlocks(blocks, cols, cols, partial, accumulate, out);
  return absl::OkStatus();
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
