// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// AdamW's moments in 8 bits each with a scale per block of kMomentBlock elements: the block-wise,
// non-linear quantisation of "8-bit optimizers" (Dettmers et al., 2022), with codes that are cut
// from floats instead of looked up in a table.
//
// A code is a small float without bias of its own, [sign] [exponent] [mantissa] from the top bit
// down; the top exponent is that of the block's scale, a power of two:
//   exponent e > 0:  (1 + mantissa / 2^M) * 2^(e - E) * scale,  E = 2^(exponent bits) - 1
//   exponent 0:      mantissa / 2^M * 2^(1 - E) * scale
// The scale is the exponent of the block's largest magnitude once that is rounded up to M mantissa
// bits, so that no rounding leaves the range, and not below 2^(E + M - 127), so that the smallest
// step is a normal float. Being a power of two it multiplies without rounding, and a value that a
// block holds is held exactly under every other scale that has its exponent: with absmax itself as
// the scale all elements would be rounded anew, at random, whenever the largest one changes.
//
// A block with a moment that is not finite, or is 2^127 and more, has the scale NaN, and so all of
// its elements read NaN: what has gone wrong shows in the next step instead of being clamped.

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
  // Biased exponents of floats: the least and the greatest that a scale may have.
  static constexpr int kLeastScale = kTopExponent + kMantissas;
  static constexpr int kGreatestScale = 253;
  static_assert(kExponents + kMantissas + (kHasSign ? 1 : 0) == 8);
};

// Chosen by the error of m / sqrt(v) that they cause (benchmarks/moment_codes.py;
// docs/precision.md has its table). A first moment whose exponents end early is rounded up now
// and then to far more than its sqrt(v), a second one to far less than its m, and either makes
// steps of many times the learning rate.
using FirstMomentCode = MomentCode<4, 3, true>;
// Unsigned, so that a bit more goes to the exponent. An element above zero never gets the code of
// zero: it divides.
using SecondMomentCode = MomentCode<5, 3, false>;

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ADAMW_MOMENT_CODES_H_
