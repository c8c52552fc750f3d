// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/cpu/workspace.h"
#include "zeroth/kernels/rope/rope.h"

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

// Rotates the query and key heads of rows [begin, end). `table` is laid out as RopeTable says.
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

// The cosines and sines of every position and frequency, kept between calls. They are computed in
// double, because in float the angles of distant neighbouring positions would be equal.
class RopeTable {
 public:
  explicit RopeTable(Allocator& allocator) : memory_(allocator) {}

  // Returns a table [at least seq, rotary_dim], which holds for each position rotary_dim / 2
  // cosines, then as many sines. Computes it only if the kept one does not fit.
  absl::StatusOr<const float*> Get(int64_t seq, int64_t rotary_dim, const RopeSpec& spec) {
    if (data_ != nullptr && seq <= seq_ && rotary_dim == rotary_dim_ && spec == spec_) return data_;
    data_ = nullptr;  // if the reservation fails, there is no table
    ZEROTH_ASSIGN_OR_RETURN(data_, memory_.ReserveFloats(seq * rotary_dim));
    seq_ = seq;
    rotary_dim_ = rotary_dim;
    spec_ = spec;
    const std::vector<double> frequencies = RopeFrequencies(spec, rotary_dim);
    const int64_t half = rotary_dim / 2;
    for (int64_t i = 0; i < half; ++i) {
      for (int64_t position = 0; position < seq; ++position) {
        const double angle = static_cast<double>(position) * frequencies[static_cast<size_t>(i)];
        float* const at = data_ + position * rotary_dim + i;
        at[0] = static_cast<float>(spec.attention_factor * std::cos(angle));
        at[half] = static_cast<float>(spec.attention_factor * std::sin(angle));
      }
    }
    return data_;
  }

 private:
  Workspace memory_;
  float* data_ = nullptr;
  int64_t seq_ = 0;
  int64_t rotary_dim_ = 0;
  RopeSpec spec_;
};

absl::Status Rope(const RopeCall& call, CpuKernels& kernels) {
  auto& kept = kernels.Kept<RopeTable>(kernels.device().allocator());
  ZEROTH_ASSIGN_OR_RETURN(const float* table,
                          kept.Get(call.positions(), call.rotary_dim, call.spec));
  const auto rotate = HWY_DYNAMIC_DISPATCH(RotateRows);
  return ForRows(call.batch * call.seq, call.packed_dim,
                 [&](int64_t begin, int64_t end) { rotate(call, table, begin, end); });
}
const OnCpu<Rope> rope;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
