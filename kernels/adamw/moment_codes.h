// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// AdamW's moments in 8 bits each, with a scale for each block of kMomentBlock elements. It is the
// block-wise, non-linear quantisation of "8-bit optimizers" (Dettmers et al., 2022), but codes are
// small floats instead of indices into a table.
//
// A code is a small float without bias of its own, [sign] [exponent] [mantissa] from the top bit
// down; the top exponent is that of the block's scale, a power of two:
//   exponent e > 0:  (1 + mantissa / 2^M) * 2^(e - E) * scale,  E = 2^(exponent bits) - 1
//   exponent 0:      mantissa / 2^M * 2^(1 - E) * scale
// The scale is the power of two of the block's largest magnitude, after that is rounded up to M
// mantissa bits, so that no rounding leaves the range. It is at least 2^(E + M - 127), so that the
// smallest step is a normal float. A power of two multiplies without rounding, and a stored value
// stays exact as long as the scale does not change. If absmax itself were the scale, all elements
// would be rounded again, at random, whenever the largest one changes.
//
// A block with a moment that is not finite, or at least 2^127, has scale NaN, so that all of its
// elements read as NaN. The failure shows in the next step instead of being clamped.

#ifndef ZEROTH_KERNELS_ADAMW_MOMENT_CODES_H_
#define ZEROTH_KERNELS_ADAMW_MOMENT_CODES_H_

#include <cstdint>

namespace zeroth {

template <int kExponents, int kMantissas, bool kHasSign>
struct MomentCode {
  static constexpr int kMantissaBits = kMantissas;
  static constexpr bool kSigned = kHasSign;
  static constexpr int kTopExponent = (1 << kExponents) - 1;  // E above
  static constexpr uint32_t kSmallestNormal = 1u << kMantissas;
  static constexpr int kDroppedBits = 23 - kMantissas;  // of a float's mantissa
  // The least and the greatest biased exponent that a scale may have.
  static constexpr int kLeastScale = kTopExponent + kMantissas;
  static constexpr int kGreatestScale = 253;
  static_assert(kExponents + kMantissas + (kHasSign ? 1 : 0) == 8);
};

// Chosen by the error of m / sqrt(v) that they cause (benchmarks/moment_codes.py; docs/precision.md
// has its table). If the first moment's exponent range ends too early, some values are rounded up
// to far more than sqrt(v); if the second moment's does, some are rounded to far less than m.
// Either makes steps of many times the learning rate.
using FirstMomentCode = MomentCode<4, 3, true>;
// Unsigned, which leaves one more bit for the exponent. An element above zero never gets the code
// of zero, because it is a divisor.
using SecondMomentCode = MomentCode<5, 3, false>;

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ADAMW_MOMENT_CODES_H_
