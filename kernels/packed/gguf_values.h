// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Decodes the blocks of GGUF files (ggml's block types, little-endian). Every multiplication below
// is exact in fp32: a half-precision number has 11 bits, a scale at most 7, and a code at most 5
// beside a power of two; those of MXFP4 beyond fp32's largest number are infinite. So a value is
// rounded at most once, by the subtraction of a minimum, and has the same bits on every device,
// with fused multiplications or without.

#pragma once

#include <bit>
#include <cstdint>

#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {

// Decodes a half-precision number. All functions here are constexpr, since device code uses them
// too.
constexpr float HalfAt(const uint8_t* bytes) {
  const uint32_t bits = static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8;
  const uint32_t sign = bits >> 15 << 31;
  const uint32_t exponent = bits >> 10 & 31;
  const uint32_t mantissa = bits & 1023;
  if (exponent == 0) {
    constexpr float kUnit = 1.0f / (1 << 24);
    return (sign == 0 ? kUnit : -kUnit) * static_cast<float>(mantissa);
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

// Decodes half of MXFP4's scale, 2^(byte - 127) / 2: GgufCodeOf doubles its values to integers.
// checkpoint/mxfp4.cc decodes the MXFP4 of safetensors files, whose codes lie in another order,
// with the sign of zeros and an infinite scale of 255, as transformers does and ggml does not.
constexpr float HalfOfE8m0(uint8_t byte) {
  // 2^-128 and 2^-127 are subnormal.
  const uint32_t bits = byte < 2 ? 0x00200000u << byte : (byte - 1u) << 23;
  return std::bit_cast<float>(bits);
}

// Elements of a block that share a scale.
template <PackedFormat Format>
inline constexpr int kGgufGroup =
    Format == PackedFormat::kQ2_K || Format == PackedFormat::kQ3_K || Format == PackedFormat::kQ6_K
        ? 16
        : 32;

// Formats of 32 elements that store a minimum, which they add.
template <PackedFormat Format>
inline constexpr bool kAddsMinimum = Format == PackedFormat::kQ4_1 || Format == PackedFormat::kQ5_1;

// Formats of 32 elements with codes of four or five bits.
template <PackedFormat Format>
inline constexpr bool kIsSmallBlock =
    kAddsMinimum<Format> || Format == PackedFormat::kQ4_0 || Format == PackedFormat::kQ5_0;

// A group of elements that share a scale and a minimum: value = scale * code - minimum.
struct GgufGroup {
  float scale = 0.0f;
  float minimum = 0.0f;
};

template <PackedFormat Format>
constexpr GgufGroup GgufGroupOf(const uint8_t* block, int group) {
  if constexpr (Format == PackedFormat::kQ6_K) {
    return {HalfAt(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + group]))};
  } else if constexpr (Format == PackedFormat::kQ4_K || Format == PackedFormat::kQ5_K) {
    // Six bits each. Groups 4 to 7 keep their upper two bits above the six bits of groups 0 to 3.
    const uint8_t* const packed = block + 4;
    const bool first = group < 4;
    const int scale =
        first ? packed[group] & 63 : (packed[group + 4] & 15) | packed[group - 4] >> 6 << 4;
    const int minimum =
        first ? packed[group + 4] & 63 : packed[group + 4] >> 4 | packed[group] >> 6 << 4;
    return {HalfAt(block) * static_cast<float>(scale),
            HalfAt(block + 2) * static_cast<float>(minimum)};
  } else if constexpr (Format == PackedFormat::kQ2_K) {
    return {HalfAt(block + 80) * static_cast<float>(block[group] & 15),
            HalfAt(block + 82) * static_cast<float>(block[group] >> 4)};
  } else if constexpr (Format == PackedFormat::kQ3_K) {
    // Groups g and g + 8 share a byte of lower bits, and g, g + 4, g + 8 and g + 12 a byte of upper
    // bits.
    const uint8_t* const packed = block + 96;
    const int lower = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
    const int upper = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
    return {HalfAt(block + 108) * static_cast<float>((lower | upper << 4) - 32)};
  } else if constexpr (Format == PackedFormat::kMxfp4) {
    return {HalfOfE8m0(block[0])};
  } else if constexpr (kAddsMinimum<Format>) {
    return {HalfAt(block), -HalfAt(block + 2)};
  } else {
    return {HalfAt(block)};
  }
}

// Elements in a run: their codes are in consecutive bytes, at one bit position. A group has one or
// two runs.
inline constexpr int kGgufRun = 16;

// The position of a run's codes in a block. The code of element i is
//   (block[lower + i] >> shift & mask)
//   | (block[upper + i] >> upper_shift & kGgufUpperMask) << kGgufUpperPlace.
struct GgufRun {
  int lower = 0;
  int shift = 0;
  int mask = 0;
  int upper = 0;
  int upper_shift = 0;
};

// True for formats that store the fifth bits of the codes in a 32-bit mask. There the upper bit of
// element i of a run is in byte upper + i / 8 instead.
template <PackedFormat Format>
inline constexpr bool kHasFifths = Format == PackedFormat::kQ5_0 || Format == PackedFormat::kQ5_1;

// The upper bits of a code that are in another byte, 0 if there are none, and their position.
template <PackedFormat Format>
inline constexpr int kGgufUpperMask =
    Format == PackedFormat::kQ6_K                                    ? 3
    : Format == PackedFormat::kQ3_K || Format == PackedFormat::kQ5_K ? 1
                                                                     : 0;
template <PackedFormat Format>
inline constexpr int kGgufUpperPlace = Format == PackedFormat::kQ3_K ? 2 : 4;

// Subtracted from a stored code to get the signed one.
template <PackedFormat Format>
inline constexpr int kGgufBias = Format == PackedFormat::kQ4_0   ? 8
                                 : Format == PackedFormat::kQ5_0 ? 16
                                 : Format == PackedFormat::kQ3_K ? 4
                                 : Format == PackedFormat::kQ6_K ? 32
                                                                 : 0;

// Returns the place of run number `run` of a block.
template <PackedFormat Format>
constexpr GgufRun GgufRunOf(int run) {
  if constexpr (Format == PackedFormat::kQ8_0) {
    return {2 + kGgufRun * run, 0, 255};
  } else if constexpr (Format == PackedFormat::kMxfp4) {
    return {1, 4 * run, 15};
  } else if constexpr (kIsSmallBlock<Format>) {
    // Elements i and i + 16 share a byte, behind the fifth bits of all.
    constexpr int kHalves = kAddsMinimum<Format> ? 4 : 2;
    return {kHalves + (kHasFifths<Format> ? 4 : 0), 4 * run, 15, kHalves + 2 * run};
  } else if constexpr (Format == PackedFormat::kQ2_K || Format == PackedFormat::kQ3_K) {
    // In each half of 128 elements, i, i + 32, i + 64 and i + 96 share a byte. Of Q3_K, all
    // elements with the same i % 32 share a byte of upper bits.
    constexpr bool kIsQ3 = Format == PackedFormat::kQ3_K;
    const int odd = kGgufRun * (run % 2);
    return {(kIsQ3 ? 32 : 16) + run / 8 * 32 + odd, run % 8 / 2 * 2, 3, odd, run / 2};
  } else if constexpr (Format == PackedFormat::kQ6_K) {
    // In each half of 128 elements, i and i + 64 share a byte of lower bits, and i, i + 32, i + 64
    // and i + 96 a byte of upper bits.
    const int half = run / 8;
    const int inside = run % 8;
    return {64 * half + kGgufRun * (inside % 4), inside / 4 * 4, 15,
            128 + 32 * half + kGgufRun * (inside % 2), inside / 2 * 2};
  } else {
    // In each 64 elements, i and i + 32 share a byte.
    constexpr bool kIsQ5 = Format == PackedFormat::kQ5_K;
    const int odd = kGgufRun * (run % 2);
    return {(kIsQ5 ? 48 : 16) + run / 4 * 32 + odd, run % 4 / 2 * 4, 15, 16 + odd, run / 2};
  }
}

// Codes of MXFP4, E2M1: a sign, two bits of exponent and one of mantissa. Twice their values.
inline constexpr int8_t kMxfp4TwiceValues[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                 0, -1, -2, -3, -4, -6, -8, -12};

// Returns the code of element `i` of a run.
template <PackedFormat Format>
constexpr int GgufCodeOf(const uint8_t* block, const GgufRun& run, int i) {
  int code = block[run.lower + i] >> run.shift & run.mask;
  if constexpr (Format == PackedFormat::kQ8_0) return static_cast<int8_t>(code);
  if constexpr (Format == PackedFormat::kMxfp4) {
    // Computed: a device would have to load a table.
    const int exponent = code >> 1 & 3;
    const int twice = exponent == 0 ? code & 1 : (2 | (code & 1)) << (exponent - 1);
    return code < 8 ? twice : -twice;
  }
  if constexpr (kHasFifths<Format>) {
    code |= (block[run.upper + i / 8] >> (i % 8) & 1) << kGgufUpperPlace<Format>;
  } else if constexpr (kGgufUpperMask<Format> != 0) {
    code |= (block[run.upper + i] >> run.upper_shift & kGgufUpperMask<Format>)
            << kGgufUpperPlace<Format>;
  }
  return code - kGgufBias<Format>;
}

constexpr float GgufElement(const GgufGroup& group, int code) {
  return group.scale * static_cast<float>(code) - group.minimum;
}

// Calls `run.template operator()<Format>()` for the GGUF format that `format` names.
template <typename Run>
constexpr auto WithGgufFormat(PackedFormat format, const Run& run) {
  switch (format) {
    case PackedFormat::kQ4_0:
      return run.template operator()<PackedFormat::kQ4_0>();
    case PackedFormat::kQ4_1:
      return run.template operator()<PackedFormat::kQ4_1>();
    case PackedFormat::kQ5_0:
      return run.template operator()<PackedFormat::kQ5_0>();
    case PackedFormat::kQ5_1:
      return run.template operator()<PackedFormat::kQ5_1>();
    case PackedFormat::kQ2_K:
      return run.template operator()<PackedFormat::kQ2_K>();
    case PackedFormat::kQ3_K:
      return run.template operator()<PackedFormat::kQ3_K>();
    case PackedFormat::kQ4_K:
      return run.template operator()<PackedFormat::kQ4_K>();
    case PackedFormat::kQ5_K:
      return run.template operator()<PackedFormat::kQ5_K>();
    case PackedFormat::kQ6_K:
      return run.template operator()<PackedFormat::kQ6_K>();
    case PackedFormat::kMxfp4:
      return run.template operator()<PackedFormat::kMxfp4>();
    default:
      return run.template operator()<PackedFormat::kQ8_0>();
  }
}

}  // namespace zeroth
