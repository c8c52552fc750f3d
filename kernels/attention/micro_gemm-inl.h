// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Products of tiles in the first-level cache, for kernels whose tiles are too small to justify a
// call of a library.

#if defined(ZEROTH_KERNELS_ATTENTION_MICRO_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZEROTH_KERNELS_ATTENTION_MICRO_GEMM_INL_H_
#undef ZEROTH_KERNELS_ATTENTION_MICRO_GEMM_INL_H_
#else
#define ZEROTH_KERNELS_ATTENTION_MICRO_GEMM_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
template <int kRows, int kVectors, class D>
HWY_INLINE void MicroKernel(D d, const MicroA& a, const float* HWY_RESTRICT b, int64_t ldb,
                            int64_t k, const float* HWY_RESTRICT scale, float* HWY_RESTRICT c,
                            int64_t ldc) {
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V acc[kRows][kVectors];
  if (scale == nullptr) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::Zero(d);
    }
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const V factor = hn::Set(d, scale[i]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j)
        acc[i][j] = hn::Mul(factor, hn::Load(d, c + i * ldc + j * lanes));
    }
  }
  const float* HWY_RESTRICT column = a.data;
  const int64_t row_stride = a.row_stride;
  const int64_t k_stride = a.k_stride;
  for (int64_t p = 0; p < k; ++p) {
    V row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = hn::Load(d, b + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const V value = hn::Set(d, column[i * row_stride]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::MulAdd(value, row[j], acc[i][j]);
    }
    b += ldb;
    column += k_stride;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) hn::Store(acc[i][j], d, c + i * ldc + j * lanes);
  }
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
