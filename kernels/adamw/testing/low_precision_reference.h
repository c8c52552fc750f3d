// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Stochastic rounding to bf16 and the 8-bit codes of moments by their definitions, with tables and
// float64 instead of bits. For tests only.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace zeroth::reference {

// Returns `value` rounded to bf16 by `draw`, as a float: up in magnitude if the fraction of a step
// that is cut off, plus draw / 2^16, is at least 1.
float RoundToBFloat16(float value, uint16_t draw);

// An 8-bit float code of moment_codes.h.
class EightBitCode {
 public:
  static EightBitCode FirstMoment() { return EightBitCode(4, 3, true); }
  static EightBitCode SecondMoment() { return EightBitCode(5, 3, false); }

  // Returns the scale of a block: 2^k, or NaN for a block that is not finite.
  float Scale(const std::vector<float>& block) const;
  uint8_t Encode(float value, float scale, uint16_t draw) const;
  float Decode(uint8_t code, float scale) const;

 private:
  EightBitCode(int exponent_bits, int mantissa_bits, bool is_signed);

  bool is_signed_;
  int least_scale_;             // exponent of 2
  std::vector<double> values_;  // of magnitudes at scale 1, ascending
  size_t smallest_normal_ = 0;  // index
};

}  // namespace zeroth::reference
