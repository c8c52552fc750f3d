// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The two 8-bit floats of "FP8 formats for deep learning" (Micikevicius et al., 2022), as they lie
// in uint8 tensors: sign, exponent, mantissa.

#pragma once

#include <cstdint>

namespace zeroth {

enum class Fp8Format : uint8_t {
  kE4M3,  // up to 448, steps of 1/8: activations and weights. No infinities; S.1111.111 is NaN.
  kE5M2,  // up to 57344, steps of 1/4: gradients. Infinities and NaNs as in IEEE 754.
};

// The parameters of a format. constexpr, since device code uses them too.
struct Fp8Numbers {
  int mantissa_bits = 0;
  int bias = 0;          // of the exponent
  float largest = 0;     // the largest finite magnitude
  uint8_t top_code = 0;  // the code of `largest`

  // A NaN in both formats; casts write no other.
  static constexpr uint8_t kNaNCode = 0x7f;
};

constexpr Fp8Numbers NumbersOf(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? Fp8Numbers{3, 7, 448.0f, 0x7e}
                                    : Fp8Numbers{2, 15, 57344.0f, 0x7b};
}

// Returns the factor that maps `amax`, the largest magnitude of the values, to the largest number
// of the format. It is at most 2^126, so that its reciprocal is a normal float, 1 if amax is 0, and
// NaN if amax is not finite.
constexpr float Fp8Multiplier(Fp8Format format, float amax) {
  constexpr float kMost = 0x1p126f;
  if (amax == 0.0f) return 1.0f;
  const float multiplier = NumbersOf(format).largest / amax;
  if (!(multiplier > 0.0f)) return amax - amax;  // of an infinity or NaN: NaN
  return multiplier < kMost ? multiplier : kMost;
}

// Depths of matmuls are multiples of this number, and tensors are aligned to this number of bytes.
inline constexpr int64_t kFp8Step = 16;

// Returns `depth` rounded up to kFp8Step. Padding with zeros does not change a matmul's result.
constexpr int64_t PaddedFp8Depth(int64_t depth) {
  return (depth + kFp8Step - 1) / kFp8Step * kFp8Step;
}

}  // namespace zeroth
