// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Copies heads into and out of the tiles that attention works on.

// Per-target include guard, in the manner of foreach_target.h.
#if defined(ZEROTH_KERNELS_ATTENTION_ATTENTION_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_ATTENTION_ATTENTION_TILES_INL_H_
#undef ZEROTH_KERNELS_ATTENTION_ATTENTION_TILES_INL_H_
#else
#define ZEROTH_KERNELS_ATTENTION_ATTENTION_TILES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

#include "zeroth/kernels/attention/attention_cpu.h"
#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// dst[rows, width] = src[rows, dim] * factor, zeros in the columns from dim on.
template <typename T>
void CopyRows(const T* HWY_RESTRICT src, int64_t src_stride, int64_t rows, int64_t dim,
              float factor, float* HWY_RESTRICT dst, int64_t width) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, factor);
  for (int64_t r = 0; r < rows; ++r, src += src_stride, dst += width) {
    int64_t i = 0;
    for (; i + lanes <= dim; i += lanes)
      hn::Store(hn::Mul(scale, LoadElements(d, src + i)), d, dst + i);
    if (i < dim) {
      const size_t rest = static_cast<size_t>(dim - i);
      hn::Store(hn::Mul(scale, LoadFirstElements(d, src + i, rest)), d, dst + i);
      i += lanes;
    }
    for (; i < width; i += lanes) hn::Store(hn::Zero(d), d, dst + i);
  }
}

// The inverse of CopyRows: dst[rows, dim] = src[rows, width] * factor[row * factor_stride].
template <typename T>
void StoreRows(const float* HWY_RESTRICT src, int64_t width, int64_t rows, int64_t dim,
               const float* factor, int64_t factor_stride, T* HWY_RESTRICT dst,
               int64_t dst_stride) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, src += width, dst += dst_stride, factor += factor_stride) {
    const auto scale = hn::Set(d, *factor);
    int64_t i = 0;
    for (; i + lanes <= dim; i += lanes)
      StoreElements(hn::Mul(scale, hn::Load(d, src + i)), d, dst + i);
    if (i < dim) {
      const size_t rest = static_cast<size_t>(dim - i);
      StoreFirstElements(hn::Mul(scale, hn::Load(d, src + i)), d, dst + i, rest);
    }
  }
}

// dst[width][kKeyTile] = the transpose of src[kKeyTile][width], in blocks of 4 x 4 where there are
// vectors.
inline void TransposeTile(const float* HWY_RESTRICT src, int64_t width, float* HWY_RESTRICT dst) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t key = 0; key < kKeyTile; ++key) {
    for (int64_t i = 0; i < width; ++i) dst[i * kKeyTile + key] = src[key * width + i];
  }
#else
  const hn::FixedTag<float, 4> d;
  for (int64_t key = 0; key < kKeyTile; key += 4) {
    for (int64_t i = 0; i < width; i += 4) {
      const float* from = src + key * width + i;
      float* to = dst + i * kKeyTile + key;
      const auto r0 = hn::Load(d, from);
      const auto r1 = hn::Load(d, from + width);
      const auto r2 = hn::Load(d, from + 2 * width);
      const auto r3 = hn::Load(d, from + 3 * width);
      const auto even_low = hn::InterleaveLower(d, r0, r2);
      const auto odd_low = hn::InterleaveLower(d, r1, r3);
      const auto even_high = hn::InterleaveUpper(d, r0, r2);
      const auto odd_high = hn::InterleaveUpper(d, r1, r3);
      hn::Store(hn::InterleaveLower(d, even_low, odd_low), d, to);
      hn::Store(hn::InterleaveUpper(d, even_low, odd_low), d, to + kKeyTile);
      hn::Store(hn::InterleaveLower(d, even_high, odd_high), d, to + 2 * kKeyTile);
      hn::Store(hn::InterleaveUpper(d, even_high, odd_high), d, to + 3 * kKeyTile);
    }
  }
#endif
}

// Copies a head's rows, zero-padded to whole tiles, into `rows_out`, and every tile's transpose
// into `transposed`; either may be null. `tile` holds [kKeyTile, width].
template <typename T>
void PackHead(const T* src, const AttentionLayout& layout, float* rows_out, float* transposed,
              float* tile) {
  for (int64_t key = 0; key < layout.seq; key += kKeyTile) {
    const int64_t rows = std::min(kKeyTile, layout.seq - key);
    float* to = rows_out != nullptr ? rows_out + key * layout.width : tile;
    CopyRows(src + key * layout.packed, layout.packed, rows, layout.dim, 1.0f, to, layout.width);
    std::fill(to + rows * layout.width, to + kKeyTile * layout.width, 0.0f);
    if (transposed != nullptr) TransposeTile(to, layout.width, transposed + key * layout.width);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
