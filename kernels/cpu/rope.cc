// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/rope.h"

#include <cmath>
#include <cstddef>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/by_element_type.h"
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

// One head of 2 * half elements. `sign` is that of the angle.
template <class D, typename T>
HWY_INLINE void RotateHead(D d, size_t half, const float* cosines, const float* sines,
                           hn::Vec<D> sign, T* x) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    auto lower = LoadElements(d, x + i);
    auto upper = LoadElements(d, x + half + i);
    Rotate(hn::LoadU(d, cosines + i), hn::Mul(sign, hn::LoadU(d, sines + i)), lower, upper);
    StoreElements(lower, d, x + i);
    StoreElements(upper, d, x + half + i);
  }
  if (i == half) return;
  const size_t rest = half - i;
  auto lower = LoadFirstElements(d, x + i, rest);
  auto upper = LoadFirstElements(d, x + half + i, rest);
  Rotate(LoadFirstElements(d, cosines + i, rest),
         hn::Mul(sign, LoadFirstElements(d, sines + i, rest)), lower, upper);
  StoreFirstElements(lower, d, x + i, rest);
  StoreFirstElements(upper, d, x + half + i, rest);
}

// The query and key heads of one place.
template <typename T>
HWY_INLINE void RotateRow(const AttentionShape& shape, const float* cosines, const float* sines,
                          bool inverse, int64_t row, void* qkv) {
  const hn::ScalableTag<float> d;
  const auto sign = hn::Set(d, inverse ? -1.0f : 1.0f);
  T* x = static_cast<T*>(qkv) + row * shape.packed_dim();
  for (int64_t head = 0; head < shape.heads + shape.kv_heads; ++head, x += shape.head_dim)
    RotateHead(d, static_cast<size_t>(shape.head_dim / 2), cosines, sines, sign, x);
}

// HWY_EXPORT takes the name of a function.
void RotateRowF32(const AttentionShape& shape, const float* cosines, const float* sines,
                  bool inverse, int64_t row, void* qkv) {
  RotateRow<float>(shape, cosines, sines, inverse, row, qkv);
}
void RotateRowBF16(const AttentionShape& shape, const float* cosines, const float* sines,
                   bool inverse, int64_t row, void* qkv) {
  RotateRow<BFloat16>(shape, cosines, sines, inverse, row, qkv);
}
void RotateRowF16(const AttentionShape& shape, const float* cosines, const float* sines,
                  bool inverse, int64_t row, void* qkv) {
  RotateRow<Float16>(shape, cosines, sines, inverse, row, qkv);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(RotateRowF32);
HWY_EXPORT(RotateRowBF16);
HWY_EXPORT(RotateRowF16);

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

void Rope(const AttentionShape& shape, const RopeTable& table, bool inverse, DType dtype,
          void* qkv) {
  const auto rotate =
      ByElementType(dtype, HWY_DYNAMIC_DISPATCH(RotateRowF32), HWY_DYNAMIC_DISPATCH(RotateRowBF16),
                    HWY_DYNAMIC_DISPATCH(RotateRowF16));
  const int64_t seq = shape.seq;
  ParallelFor(shape.batch * seq, RowGrain(shape.packed_dim()),
              [=, &shape, &table](int64_t, int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  const int64_t position = row % seq;
                  rotate(shape, table.cosines(position), table.sines(position), inverse, row, qkv);
                }
              });
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
