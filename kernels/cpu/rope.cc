// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/rope.h"

#include <cmath>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// (lower, upper) -> (lower cos - upper sin, upper cos + lower sin), with the sign of sin given.
template <class V>
HWY_INLINE void Rotate(V cosine, V sine, V& lower, V& upper) {
  const V rotated = hn::NegMulAdd(upper, sine, hn::Mul(lower, cosine));
  upper = hn::MulAdd(lower, sine, hn::Mul(upper, cosine));
  lower = rotated;
}

// `heads` heads of 2 * half elements, one after the other, all of one position.
void RotateHeads(size_t heads, size_t half, const float* cosines, const float* sines, bool inverse,
                 float* x) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto sign = hn::Set(d, inverse ? -1.0f : 1.0f);
  for (size_t head = 0; head < heads; ++head, x += 2 * half) {
    size_t i = 0;
    for (; i + lanes <= half; i += lanes) {
      auto lower = hn::LoadU(d, x + i);
      auto upper = hn::LoadU(d, x + half + i);
      Rotate(hn::LoadU(d, cosines + i), hn::Mul(sign, hn::LoadU(d, sines + i)), lower, upper);
      hn::StoreU(lower, d, x + i);
      hn::StoreU(upper, d, x + half + i);
    }
    if (i == half) continue;
    const size_t rest = half - i;
    auto lower = LoadFirst(d, x + i, rest);
    auto upper = LoadFirst(d, x + half + i, rest);
    Rotate(LoadFirst(d, cosines + i, rest), hn::Mul(sign, LoadFirst(d, sines + i, rest)), lower,
           upper);
    StoreFirst(lower, d, x + i, rest);
    StoreFirst(upper, d, x + half + i, rest);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(RotateHeads);

absl::Status RopeTable::Prepare(int64_t seq, int64_t head_dim, float theta) {
  if (data_ != nullptr && seq <= seq_ && head_dim == head_dim_ && theta == theta_)
    return absl::OkStatus();
  data_ = nullptr;  // a failed reservation leaves nothing behind
  ZEROTH_ASSIGN_OR_RETURN(data_, memory_.ReserveFloats(seq * head_dim));
  seq_ = seq;
  head_dim_ = head_dim;
  theta_ = theta;
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = std::pow(
        static_cast<double>(theta), -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (int64_t position = 0; position < seq; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      data_[position * head_dim + i] = static_cast<float>(std::cos(angle));
      data_[position * head_dim + half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return absl::OkStatus();
}

void Rope(const AttentionShape& shape, const RopeTable& table, bool inverse, float* qkv) {
  const int64_t packed = shape.packed_dim();
  const size_t heads = static_cast<size_t>(shape.heads + shape.kv_heads);
  const size_t half = static_cast<size_t>(shape.head_dim / 2);
  const int64_t seq = shape.seq;
  ParallelFor(shape.batch * seq, RowGrain(packed),
              [=, &table](int64_t, int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  const int64_t position = row % seq;
                  HWY_DYNAMIC_DISPATCH(RotateHeads)
                  (heads, half, table.cosines(position), table.sines(position), inverse,
                   qkv + row * packed);
                }
              });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
