// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/testing/low_precision_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace zeroth::reference {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

float RoundToBFloat16(float value, uint16_t draw) {
  if (!std::isfinite(value)) return value;
  if (value == 0) return value;
  const double magnitude = std::abs(static_cast<double>(value));
  const double step = std::ldexp(1.0, std::max(std::ilogb(magnitude), -126) - 7);
  const double rounded = std::floor(magnitude / step + draw / 65536.0) * step;
  return std::copysign(static_cast<float>(rounded), value);
}

EightBitCode::EightBitCode(int exponent_bits, int mantissa_bits, bool is_signed)
    : is_signed_(is_signed) {
  const int top = (1 << exponent_bits) - 1;
  const int mantissas = 1 << mantissa_bits;
  least_scale_ = top + mantissa_bits - 127;
  smallest_normal_ = static_cast<size_t>(mantissas);
  for (int exponent = 0; exponent <= top; ++exponent) {
    for (int mantissa = 0; mantissa < mantissas; ++mantissa) {
      const double fraction = mantissa / static_cast<double>(mantissas);
      values_.push_back(exponent == 0 ? std::ldexp(fraction, 1 - top)
                                      : std::ldexp(1 + fraction, exponent - top));
    }
  }
}

float EightBitCode::Scale(const std::vector<float>& block) const {
  double largest = 0;
  for (const float value : block) {
    // A scale above 2^126 would have no normal inverse.
    if (!(std::abs(static_cast<double>(value)) <= std::ldexp(values_.back(), 126))) return kNan;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  int exponent = least_scale_;
  while (std::ldexp(values_.back(), exponent) < largest) ++exponent;
  return static_cast<float>(std::ldexp(1.0, exponent));
}

uint8_t EightBitCode::Encode(float value, float scale, uint16_t draw) const {
  const double ratio = std::abs(static_cast<double>(value)) / static_cast<double>(scale);
  const auto above = std::upper_bound(values_.begin(), values_.end(), ratio);
  size_t code = static_cast<size_t>(above - values_.begin()) - 1;
  if (code < smallest_normal_) {
    // This sum is defined as one of floats.
    const double steps = ratio / values_[1];
    code = static_cast<size_t>(static_cast<float>(steps) + static_cast<float>(draw) / 65536.0f);
  } else if (code + 1 < values_.size()) {
    const double fraction = (ratio - values_[code]) / (values_[code + 1] - values_[code]);
    if (fraction + draw / 65536.0 >= 1) ++code;
  }
  if (is_signed_) return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80u : 0u));
  return static_cast<uint8_t>(value > 0 ? std::max<size_t>(code, 1) : code);
}

float EightBitCode::Decode(uint8_t code, float scale) const {
  const size_t magnitude = is_signed_ ? code & 0x7fu : code;
  const double sign = is_signed_ && (code & 0x80u) != 0 ? -1 : 1;
  return static_cast<float>(sign * values_[magnitude] * static_cast<double>(scale));
}

}  // namespace zeroth::reference
