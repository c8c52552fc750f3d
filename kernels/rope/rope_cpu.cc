// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/kernels/rope/rope_tables.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope/rope_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Computes (lower, upper) = (lower cos - upper sin, upper cos + lower sin). The caller has set the
// sign of `sine`.
template <class V>
HWY_INLINE void Rotate(V cosine, V sine, V& lower, V& upper) {
  const V rotated = hn::NegMulAdd(upper, sine, hn::Mul(lower, cosine));
  upper = hn::MulAdd(lower, sine, hn::Mul(upper, cosine));
  lower = rotated;
}

// Rotates the first 2 * half elements of a head, by angles of the sign `sign`.
template <typename T>
HWY_INLINE void RotateHead(size_t half, const float* cosines, const float* sines, float sign,
                           T* x) {
  ForVectors(half, [=](auto d, size_t i, auto whole, size_t count) HWY_ATTR {
    auto lower = LoadLanes<whole()>(d, x + i, count);
    auto upper = LoadLanes<whole()>(d, x + half + i, count);
    Rotate(LoadLanes<whole()>(d, cosines + i, count),
           hn::Mul(hn::Set(d, sign), LoadLanes<whole()>(d, sines + i, count)), lower, upper);
    StoreLanes<whole()>(lower, d, x + i, count);
    StoreLanes<whole()>(upper, d, x + half + i, count);
  });
}

// Rotates the query and key heads of rows [begin, end). `table` is laid out as RopeTables says.
void RotateRows(const RopeCall& call, const float* table, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    const float sign = call.inverse ? -1.0f : 1.0f;
    const int64_t half = call.rotary_dim / 2;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t place = row % call.seq;
      // Clamped, so that the position lies in the table whatever `starts` holds.
      const int64_t start = call.starts == nullptr ? 0 : call.starts[row];
      const int64_t position = call.first_position + place - std::clamp<int64_t>(start, 0, place);
      const float* cosines = table + position * call.rotary_dim;
      T* x = static_cast<T*>(call.qkv) + row * call.packed_dim;
      for (int64_t head = 0; head < call.heads; ++head, x += call.head_dim)
        RotateHead(static_cast<size_t>(half), cosines, cosines + half, sign, x);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

namespace {

HWY_EXPORT(RotateRows);

// Computes in double, because in float the angles of distant neighbouring positions would be equal.
void FillTable(const RopeCall& call, float* table) {
  const std::vector<double> frequencies = RopeFrequencies(call.spec, call.rotary_dim);
  const int64_t half = call.rotary_dim / 2;
  const double length = call.spec.attention_factor;
  for (int64_t i = 0; i < half; ++i) {
    for (int64_t position = 0; position < call.positions(); ++position) {
      const double angle = static_cast<double>(position) * frequencies[static_cast<size_t>(i)];
      float* const at = table + position * call.rotary_dim + i;
      at[0] = static_cast<float>(length * std::cos(angle));
      at[half] = static_cast<float>(length * std::sin(angle));
    }
  }
}

absl::Status Rope(const RopeCall& call, CpuKernels& kernels) {
  const auto make = [&](size_t bytes) -> absl::StatusOr<std::shared_ptr<Buffer>> {
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> memory, kernels.device().allocator().Allocate(
                                                                bytes, MemoryCategory::kWorkspace));
    FillTable(call, static_cast<float*>(memory->data()));
    return memory;
  };
  ZEROTH_ASSIGN_OR_RETURN(const float* const table, kernels.Kept<RopeTables>().Get(call, make));
  const auto rotate = HWY_DYNAMIC_DISPATCH(RotateRows);
  return ForRows(call.batch * call.seq, call.packed_dim,
                 [&](int64_t begin, int64_t end) { rotate(call, table, begin, end); });
}
const OnCpu<Rope> rope;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
