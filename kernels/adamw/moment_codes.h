// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// AdamW's moments in 8 bits each, with a scale for each block of kMomentBlock elements. It is the
// block-wise, non-linear quantisation of "8-bit optimizers" (Dettmers et al., 2022), but codes are
// small floats instead of indices into a table.
//
// A code is a small float: [sign] [exponent] [mantissa] from the top bit down. The top exponent is
// that of the block's scale, a power of two:
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

#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"

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

// The formats were chosen by the error that they cause in m / sqrt(v) (benchmarks/moment_codes.py;
// table in docs/precision.md). If the first moment's exponent range ended too early, some values
// would be rounded up to far more than sqrt(v); if the second moment's did, some would be rounded
// to far less than m. Either makes steps of many times the learning rate.
using FirstMomentCode = MomentCode<4, 3, true>;
// Unsigned, which leaves one more bit for the exponent. An element above zero never gets the code
// of zero, because it is a divisor.
using SecondMomentCode = MomentCode<5, 3, false>;

// These convert single elements of a stored state on the host, without a device's kernels. They
// round to nearest, while the optimizer rounds stochastically.

template <class Code>
float DecodeMoment(uint8_t code, float scale) {
  const uint32_t magnitude = Code::kSigned ? code & 0x7fu : code;
  const int exponent = static_cast<int>(magnitude >> Code::kMantissaBits);
  const auto mantissa = static_cast<float>(magnitude & (Code::kSmallestNormal - 1));
  const float fraction = std::ldexp(mantissa, -Code::kMantissaBits);
  const float value = exponent == 0 ? std::ldexp(fraction, 1 - Code::kTopExponent)
                                    : std::ldexp(1.0f + fraction, exponent - Code::kTopExponent);
  return (Code::kSigned && code >= 0x80 ? -value : value) * scale;
}

// Returns the scale of a block, a power of two, or NaN if a value is not finite or too large.
// `largest` is the block's largest magnitude, as the bits of a float.
template <class Code>
float MomentScale(uint32_t largest) {
  const uint32_t exponent = (largest + ((1u << Code::kDroppedBits) - 1)) >> 23;
  if (exponent > static_cast<uint32_t>(Code::kGreatestScale)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  return std::bit_cast<float>(std::max(exponent, static_cast<uint32_t>(Code::kLeastScale)) << 23);
}
template <class Code>
float MomentScaleOf(absl::Span<const float> block) {
  uint32_t largest = 0;
  for (const float value : block) {
    largest = std::max(largest, std::bit_cast<uint32_t>(std::abs(value)));
  }
  return MomentScale<Code>(largest);
}

// Returns the code whose value is nearest, given the scale of its block. A second moment above zero
// never gets the code of zero, because it is a divisor. If the scale is NaN, any code may be
// returned.
template <class Code>
uint8_t EncodeMoment(float value, float scale) {
  if (std::isnan(scale)) return 0;
  const float ratio = std::abs(value) / scale;
  uint32_t code = 0;
  if (ratio < std::ldexp(1.0f, 1 - Code::kTopExponent)) {
    code = static_cast<uint32_t>(
        std::lround(std::ldexp(ratio, Code::kTopExponent - 1 + Code::kMantissaBits)));
  } else {
    constexpr uint32_t kHalf = 1u << (Code::kDroppedBits - 1);
    constexpr uint32_t kRebias = static_cast<uint32_t>(127 - Code::kTopExponent)
                                 << Code::kMantissaBits;
    code = ((std::bit_cast<uint32_t>(ratio) + kHalf) >> Code::kDroppedBits) - kRebias;
  }
  if (Code::kSigned) return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80u : 0u));
  return static_cast<uint8_t>(std::max(code, value > 0 ? 1u : 0u));
}

}  // namespace zeroth
