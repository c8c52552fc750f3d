// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums of squares that are exact, and therefore the same whatever the order of the additions: the
// gradient norm must not depend on where shards begin. The sum is a wide fixed-point number
// (Kulisch's accumulator) kept as words with spare bits each, so that adding words of several ranks
// as integers adds the numbers.

#ifndef ZEROTH_KERNELS_SUM_OF_SQUARES_EXACT_SUM_H_
#define ZEROTH_KERNELS_SUM_OF_SQUARES_EXACT_SUM_H_

#include <cstdint>

#include "absl/types/span.h"

namespace zeroth {

// Word w (0 <= w < kBins) counts units of 2^(kBinBits * w + kMinExponent). The square of any finite
// float, subnormals included, is a sum of such units: squares lie in [2^-298, 2^256). Words are
// int64 and may carry any sign; a value has many representations, all of which decode to the same
// double. Implementations normalise before they store, which leaves room to add the words of 2^36
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
  // Adds the square of one value, on the host: the reference for kernels. Leaves the words
  // normalised.
  static void AddSquare(float value, absl::Span<int64_t> words);
  // Carries upwards until every word but the top one is in [0, 2^kBinBits), the same number in its
  // one representation of that kind.
  static void Normalize(absl::Span<int64_t> words);
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_SUM_OF_SQUARES_EXACT_SUM_H_
