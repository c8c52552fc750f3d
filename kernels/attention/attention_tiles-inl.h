// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Copies heads into and out of the tiles that attention works on, and multiplies tiles. They lie in
// the L1 cache, and are too small to justify a library call.

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

// Vectors of at most the padding of tiles; those of SVE may be longer.
using TileTag = hn::CappedTag<float, kWidthMultiple>;

// dst[rows, width] = src[rows, dim] * factor, zeros in the columns from dim on.
template <typename T>
void CopyRows(const T* HWY_RESTRICT src, int64_t src_stride, int64_t rows, int64_t dim,
              float factor, float* HWY_RESTRICT dst, int64_t width) {
  const TileTag d;
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
  const TileTag d;
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

// dst[width][kKeyTile] = the transpose of src[kKeyTile][width], in 4 x 4 blocks on targets with
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

// The accumulators fill the register file: 6 x 4 of AVX-512's 32 registers, 6 x 2 of the 16 of
// older targets. The rest hold a row of b and a broadcast element of a.
inline constexpr int kMicroRows = 6;
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kMicroVectors = 4;
#else
inline constexpr int kMicroVectors = 2;
#endif

// A tile's left operand: element (row, k) is data[row * row_stride + k * k_stride], so that a
// transpose costs nothing.
struct MicroA {
  const float* data;
  int64_t row_stride;
  int64_t k_stride;
};

// c[kRows][kVectors vectors] = a b, plus c * scale[row] if scale is given.
template <size_t kRows, size_t kVectors, class D>
HWY_INLINE void MicroKernel(D d, const MicroA& a, const float* HWY_RESTRICT b, int64_t ldb,
                            int64_t k, const float* HWY_RESTRICT scale, float* HWY_RESTRICT c,
                            int64_t ldc) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Accumulator n is of row n / kVectors and vector n % kVectors.
  const auto place = [=](size_t n) ZEROTH_INLINE_LAMBDA {
    return c + static_cast<int64_t>(n / kVectors) * ldc +
           static_cast<int64_t>(n % kVectors) * lanes;
  };
  const auto initial = [=](size_t n) ZEROTH_INLINE_LAMBDA {
    return scale == nullptr ? hn::Zero(d)
                            : hn::Mul(hn::Set(d, scale[n / kVectors]), hn::Load(d, place(n)));
  };
  const auto multiply = [&](auto&... acc) ZEROTH_INLINE_LAMBDA {
    const float* HWY_RESTRICT column = a.data;
    const float* HWY_RESTRICT line = b;
    const int64_t row_stride = a.row_stride;
    const int64_t k_stride = a.k_stride;
    for (int64_t p = 0; p < k; ++p, line += ldb, column += k_stride) {
      const auto load = [=](size_t j) ZEROTH_INLINE_LAMBDA {
        return hn::Load(d, line + static_cast<int64_t>(j) * lanes);
      };
      const auto add = [&](auto&... row) ZEROTH_INLINE_LAMBDA {
        const auto add_one = [&](auto n, auto& sum) ZEROTH_INLINE_LAMBDA {
          const auto value = hn::Set(d, column[static_cast<int64_t>(n / kVectors) * row_stride]);
          sum = hn::MulAdd(value, VectorAt<n % kVectors>(row...), sum);
        };
        ForEachVector(add_one, acc...);
      };
      WithVectors<kVectors>(load, add);
    }
    ForEachVector([&](auto n, auto& sum) ZEROTH_INLINE_LAMBDA { hn::Store(sum, d, place(n)); },
                  acc...);
  };
  WithVectors<kRows * kVectors>(initial, multiply);
}

template <int kRows, class D>
HWY_INLINE void MicroRowBlock(D d, const MicroA& a, const float* b, int64_t ldb, int64_t k,
                              const float* scale, float* c, int64_t ldc, int64_t vectors) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; vectors >= kMicroVectors; vectors -= kMicroVectors) {
    MicroKernel<kRows, kMicroVectors>(d, a, b, ldb, k, scale, c, ldc);
    b += kMicroVectors * lanes;
    c += kMicroVectors * lanes;
  }
  if constexpr (kMicroVectors > 2) {
    if (vectors >= 2) {
      MicroKernel<kRows, 2>(d, a, b, ldb, k, scale, c, ldc);
      vectors -= 2;
      b += 2 * lanes;
      c += 2 * lanes;
    }
  }
  if (vectors == 1) MicroKernel<kRows, 1>(d, a, b, ldb, k, scale, c, ldc);
}

// c[rows][vectors] = a b (+ c * scale[row]) for rows <= kMicroRows. Rows of b and c are aligned to
// whole vectors.
template <class D>
HWY_NOINLINE void MicroGemm(D d, int64_t rows, const MicroA& a, const float* b, int64_t ldb,
                            int64_t k, const float* scale, float* c, int64_t ldc, int64_t vectors) {
  static_assert(kMicroRows == 6, "one case per number of rows");
  switch (rows) {
    case 6:
      return MicroRowBlock<6>(d, a, b, ldb, k, scale, c, ldc, vectors);
    case 5:
      return MicroRowBlock<5>(d, a, b, ldb, k, scale, c, ldc, vectors);
    case 4:
      return MicroRowBlock<4>(d, a, b, ldb, k, scale, c, ldc, vectors);
    case 3:
      return MicroRowBlock<3>(d, a, b, ldb, k, scale, c, ldc, vectors);
    case 2:
      return MicroRowBlock<2>(d, a, b, ldb, k, scale, c, ldc, vectors);
    case 1:
      return MicroRowBlock<1>(d, a, b, ldb, k, scale, c, ldc, vectors);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
