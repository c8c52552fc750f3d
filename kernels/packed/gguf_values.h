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

// Returns the code of element `i` of a block.
template <PackedFormat Format>
constexpr int GgufCodeOf(const uint8_t* block, int i) {
  if constexpr (Format == PackedFormat::kQ8_0) {
    return static_cast<int8_t>(block[2 + i]);
  } else if constexpr (Format == PackedFormat::kMxfp4) {
    // E2M1: a sign, two bits of exponent and one of mantissa. Twice the value: 0, 1, 2, 3, 4, 6, 8
    // or 12.
    const int both = block[1 + i % 16];
    const int bits = i < 16 ? both & 15 : both >> 4;
    const int exponent = bits >> 1 & 3;
    const int twice = exponent == 0 ? bits & 1 : (2 | (bits & 1)) << (exponent - 1);
    return bits < 8 ? twice : -twice;
  } else if constexpr (kIsSmallBlock<Format>) {
    // Elements i and i + 16 share a byte, behind the fifth bits of all.
    constexpr int kHalves = kAddsMinimum<Format> ? 4 : 2;
    constexpr bool kHasFifths = Format == PackedFormat::kQ5_0 || Format == PackedFormat::kQ5_1;
    const int both = block[kHalves + (kHasFifths ? 4 : 0) + i % 16];
    int code = i < 16 ? both & 15 : both >> 4;
    if constexpr (kHasFifths) code |= (block[kHalves + i / 8] >> (i % 8) & 1) << 4;
    return kAddsMinimum<Format> ? code : code - (kHasFifths ? 16 : 8);
  } else if constexpr (Format == PackedFormat::kQ2_K || Format == PackedFormat::kQ3_K) {
    // In each half of 128 elements, i, i + 32, i + 64 and i + 96 share a byte. Of Q3_K, all
    // elements with the same i % 32 share a byte of upper bits.
    constexpr bool kIsQ3 = Format == PackedFormat::kQ3_K;
    const int both = block[(kIsQ3 ? 32 : 16) + i / 128 * 32 + i % 32];
    const int lower = both >> (2 * (i % 128 / 32)) & 3;
    return kIsQ3 ? (lower | (block[i % 32] >> (i / 32) & 1) << 2) - 4 : lower;
  } else if constexpr (Format == PackedFormat::kQ6_K) {
    // In each half of 128 elements, i and i + 64 share a byte of lower bits, and i, i + 32, i + 64
    // and i + 96 a byte of upper bits.
    const int half = i / 128;
    const int inside = i % 128;
    const int both = block[64 * half + inside % 64];
    const int upper = block[128 + 32 * half + inside % 32] >> (2 * (inside / 32)) & 3;
    return ((inside < 64 ? both & 15 : both >> 4) | upper << 4) - 32;
  } else {
    // In each 64 elements, i and i + 32 share a byte.
    constexpr bool kIsQ5 = Format == PackedFormat::kQ5_K;
    const int both = block[(kIsQ5 ? 48 : 16) + i / 64 * 32 + i % 32];
    const int lower = i % 64 < 32 ? both & 15 : both >> 4;
    return kIsQ5 ? lower | (block[16 + i % 32] >> (i / 32) & 1) << 4 : lower;
  }
}

constexpr float GgufElement(const GgufGroup& group, int code) {
  return group.scale * static_cast<float>(code) - group.minimum;
}

// Calls store(i, value) for the elements of a block in ascending order.
template <PackedFormat Format, typename Store>
constexpr void UnpackGgufBlock(const uint8_t* block, const Store& store) {
  constexpr PackedShape kOne = {Format};
  constexpr int kGroup = kGgufGroup<Format>;
  for (int begin = 0; begin < kOne.block(); begin += kGroup) {
    const GgufGroup group = GgufGroupOf<Format>(block, begin / kGroup);
    for (int i = begin; i < begin + kGroup; ++i) {
      store(i, GgufElement(group, GgufCodeOf<Format>(block, i)));
    }
  }
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
