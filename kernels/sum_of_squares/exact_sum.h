// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Exact sums of squares. The gradient norm must not depend on where shards begin, and an exact sum
// does not depend on the order of additions. The sum is a wide fixed-point number (Kulisch's
// accumulator). Its words have spare bits, so that the sums of several ranks can be added word by
// word as integers.

#ifndef ZEROTH_KERNELS_SUM_OF_SQUARES_EXACT_SUM_H_
#define ZEROTH_KERNELS_SUM_OF_SQUARES_EXACT_SUM_H_

#include <cstdint>

#include "absl/types/span.h"

namespace zeroth {

// Word w (0 <= w < kBins) counts units of 2^(kBinBits * w + kMinExponent). The square of any finite
// float, subnormals included, is a sum of such units: squares lie in [2^-298, 2^256). Words are
// int64 and may have any sign. A value has many representations, all of which decode to the same
// double. Implementations normalise the words before they store them, which leaves room to add 2^36
// stored sums.
struct ExactSum {
  static constexpr int kBinBits = 26;
  static constexpr int kMinExponent = -298;
  static constexpr int kBins =
      24;  // 24 * 26 bits cover 2^-298 … 2^326, the sum of 2^64 largest squares
  // The last words count NaNs and infinities, so that they survive the integer addition.
  static constexpr int kNanWord = kBins;
  static constexpr int kInfWord = kBins + 1;
  static constexpr int kWords = kBins + 2;

  // The sum as the nearest double; infinity or NaN if an infinite or NaN element was added.
  // words.size() == kWords.
  static double Decode(absl::Span<const int64_t> words);
  // Adds the square of one value, on the host, and normalises the words. It is the reference for
  // kernels.
  static void AddSquare(float value, absl::Span<int64_t> words);
  // Carries upwards until every word but the top one is in [0, 2^kBinBits), which makes the
  // representation of a number unique.
  static void Normalize(absl::Span<int64_t> words);
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_SUM_OF_SQUARES_EXACT_SUM_H_
