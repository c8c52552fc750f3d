// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The codes of moment_codes.h for single elements on the host, to convert a stored state without a
// device's kernels. Rounds to nearest, while the optimizer rounds stochastically.

#ifndef ZEROTH_KERNELS_ADAMW_MOMENT_CODES_SCALAR_H_
#define ZEROTH_KERNELS_ADAMW_MOMENT_CODES_SCALAR_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"

#include "zeroth/kernels/adamw/moment_codes.h"

namespace zeroth {

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

// Returns the scale of a block: a power of two, or NaN if a value is not finite or too large.
template <class Code>
float MomentScaleOf(absl::Span<const float> block) {
  uint32_t largest = 0;
  for (const float value : block) {
    largest = std::max(largest, std::bit_cast<uint32_t>(std::abs(value)));
  }
  const uint32_t exponent = (largest + ((1u << Code::kDroppedBits) - 1)) >> 23;
  if (exponent > static_cast<uint32_t>(Code::kGreatestScale)) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  return std::bit_cast<float>(std::max(exponent, static_cast<uint32_t>(Code::kLeastScale)) << 23);
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

#endif  // ZEROTH_KERNELS_ADAMW_MOMENT_CODES_SCALAR_H_
