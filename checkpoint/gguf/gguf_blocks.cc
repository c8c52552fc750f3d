// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"

namespace zeroth {
namespace {

using Values = absl::Span<const float>;

constexpr size_t kSmallBlock = 32;
constexpr size_t kLargeBlock = 256;
// Groups of a large block whose values are all smaller than this are zero.
constexpr float kTinyMagnitude = 1e-15f;

// Stores a number in half precision, and returns what was stored.
float StoreHalf(float value, uint8_t* out) {
  const Float16 half = ToFloat16(value);
  std::memcpy(out, &half, sizeof(half));
  return ToFloat(half);
}

// Returns the integer of [low, high] that is nearest to `value`, ties to even. It rounds by adding
// 1.5 * 2^23, which compilers vectorise, unlike a library call for each element.
float Nearest(float value, float low, float high) {
  constexpr float kRounder = 12582912.0f;
  return (std::clamp(value, low, high) + kRounder) - kRounder;
}

// Returns 1 / scale, or 0 where that overflows: such a scale is 0 in half precision anyway.
float Inverse(float scale) {
  const float inverse = 1.0f / scale;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// The value of the largest magnitude, with its sign; the first of several.
float Largest(Values values) {
  float largest = 0.0f;
  for (const float value : values) {
    if (std::abs(value) > std::abs(largest)) largest = value;
  }
  return largest;
}

void QuantizeQ8_0(Values values, uint8_t* out) {
  const float scale = std::abs(Largest(values)) / 127.0f;
  const float inverse = Inverse(scale);
  StoreHalf(scale, out);
  for (size_t i = 0; i < values.size(); ++i) {
    out[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::round(values[i] * inverse)));
  }
}

// The low four bits of elements i and i + 16 share a byte, after the fifth bits.
void StoreFiveBits(absl::Span<const uint8_t> codes, uint8_t* out) {
  uint32_t fifths = 0;
  for (size_t i = 0; i < codes.size(); ++i) fifths |= static_cast<uint32_t>(codes[i] >> 4) << i;
  std::memcpy(out, &fifths, sizeof(fifths));
  for (size_t i = 0; i < kSmallBlock / 2; ++i) {
    out[4 + i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + kSmallBlock / 2] & 15) << 4);
  }
}

void QuantizeQ5_0(Values values, uint8_t* out) {
  const float scale = Largest(values) / -16.0f;
  const float inverse = Inverse(scale);
  StoreHalf(scale, out);
  std::array<uint8_t, kSmallBlock> codes;
  for (size_t i = 0; i < codes.size(); ++i) {
    // Rounded once, as where ggml's compiler fuses the two operations.
    const double exact = static_cast<double>(values[i]) * inverse + 16.5;
    codes[i] = static_cast<uint8_t>(std::min(static_cast<float>(exact), 31.0f));
  }
  StoreFiveBits(codes, out + 2);
}

void QuantizeQ5_1(Values values, uint8_t* out) {
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  const float scale = (*max - *min) / 31.0f;
  const float inverse = Inverse(scale);
  StoreHalf(scale, out);
  StoreHalf(*min, out + 2);
  std::array<uint8_t, kSmallBlock> codes;
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<uint8_t>(std::min((values[i] - *min) * inverse + 0.5f, 31.0f));
  }
  StoreFiveBits(codes, out + 4);
}

// A group's elements are scale * code - minimum; both are at least 0.
struct Affine {
  float scale = 0.0f;
  float minimum = 0.0f;
};

// The candidates that FitAffine tries: `steps` + 1 scales, from which it solves a group's least
// squares.
struct AffineSearch {
  float max_code;
  float first;  // added to max_code in the first step
  int steps;
};

// Searches the scale and minimum with the least squared error. Large values weigh more. As in ggml,
// each step begins from the best minimum so far.
Affine FitAffine(Values values, const AffineSearch& search) {
  constexpr float kStep = 0.1f;
  constexpr size_t kGroup = 32;
  std::array<float, kGroup> weights;
  float squares = 0.0f;
  for (const float value : values) squares += value * value;
  const float root_mean_square = std::sqrt(squares / static_cast<float>(kGroup));
  float sum_w = 0.0f;
  float sum_wx = 0.0f;
  for (size_t i = 0; i < kGroup; ++i) {
    weights[i] = root_mean_square + std::abs(values[i]);
    sum_w += weights[i];
    sum_wx += weights[i] * values[i];
  }
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  const float high = *highest;
  float best_min = std::min(*lowest, 0.0f);
  if (high - best_min < kTinyMagnitude) return {0.0f, -best_min};
  std::array<float, kGroup> codes;
  // Sets the codes of all values for a scale that divides their range into `levels`.
  const auto set_codes = [&](float levels) {
    const float inverse = levels / (high - best_min);
    for (size_t i = 0; i < kGroup; ++i) {
      codes[i] = Nearest(inverse * (values[i] - best_min), 0.0f, search.max_code);
    }
  };
  const auto error_of = [&](float scale, float min) {
    float error = 0.0f;
    for (size_t i = 0; i < kGroup; ++i) {
      const float difference = scale * codes[i] + min - values[i];
      error += weights[i] * (difference * difference);
    }
    return error;
  };
  set_codes(search.max_code);
  float best_scale = 1.0f / (search.max_code / (high - best_min));
  float best_error = error_of(best_scale, best_min);
  for (int step = 0; step <= search.steps; ++step) {
    set_codes(search.first + kStep * static_cast<float>(step) + search.max_code);
    float sum_wl = 0.0f;
    float sum_wll = 0.0f;
    float sum_wlx = 0.0f;
    for (size_t i = 0; i < kGroup; ++i) {
      sum_wl += weights[i] * codes[i];
      sum_wll += weights[i] * codes[i] * codes[i];
      sum_wlx += weights[i] * codes[i] * values[i];
    }
    const float determinant = sum_w * sum_wll - sum_wl * sum_wl;
    if (!(determinant > 0.0f)) continue;
    float scale = (sum_w * sum_wlx - sum_wx * sum_wl) / determinant;
    float min = (sum_wll * sum_wx - sum_wl * sum_wlx) / determinant;
    if (min > 0.0f) {
      min = 0.0f;
      scale = sum_wlx / sum_wll;
    }
    const float error = error_of(scale, min);
    if (error < best_error) {
      best_error = error;
      best_scale = scale;
      best_min = min;
    }
  }
  return {best_scale, -best_min};
}

// Writes the head of a kQ4_K or kQ5_K block: two half-precision numbers, and the groups' scales and
// minima as multiples of these, in 6 bits each. Returns the codes of the elements.
std::array<uint8_t, kLargeBlock> QuantizeGroups(Values values, const AffineSearch& search,
                                                uint8_t* out) {
  constexpr size_t kGroup = 32;
  constexpr size_t kGroups = kLargeBlock / kGroup;
  std::array<Affine, kGroups> groups;
  Affine largest;
  for (size_t g = 0; g < kGroups; ++g) {
    groups[g] = FitAffine(values.subspan(g * kGroup, kGroup), search);
    largest.scale = std::max(largest.scale, groups[g].scale);
    largest.minimum = std::max(largest.minimum, groups[g].minimum);
  }
  const float inverse_scale = largest.scale > 0.0f ? 63.0f / largest.scale : 0.0f;
  const float inverse_minimum = largest.minimum > 0.0f ? 63.0f / largest.minimum : 0.0f;
  const float unit = StoreHalf(largest.scale / 63.0f, out);
  const float unit_minimum = StoreHalf(largest.minimum / 63.0f, out + 2);
  // Bytes 0 to 3 and 4 to 7: scales and minima of the first four groups. Bytes 8 to 11: the low
  // four bits of the other four groups, whose upper two bits are the top bits of bytes 0 to 7.
  uint8_t* const packed = out + 4;
  std::array<uint8_t, kLargeBlock> codes{};
  for (size_t g = 0; g < kGroups; ++g) {
    const auto scale_code = static_cast<uint8_t>(Nearest(inverse_scale * groups[g].scale, 0, 63));
    const auto minimum_code =
        static_cast<uint8_t>(Nearest(inverse_minimum * groups[g].minimum, 0, 63));
    if (g < 4) {
      packed[g] = scale_code;
      packed[g + 4] = minimum_code;
    } else {
      packed[g + 4] = static_cast<uint8_t>((scale_code & 15) | (minimum_code & 15) << 4);
      packed[g - 4] |= static_cast<uint8_t>(scale_code >> 4 << 6);
      packed[g] |= static_cast<uint8_t>(minimum_code >> 4 << 6);
    }
    const float scale = unit * static_cast<float>(scale_code);
    const float minimum = unit_minimum * static_cast<float>(minimum_code);
    // If the scale is 0, every code has the same value.
    if (scale == 0.0f) continue;
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      codes[i] = static_cast<uint8_t>(Nearest((values[i] + minimum) / scale, 0, search.max_code));
    }
  }
  return codes;
}

// Elements i and i + 32 of each 64 share a byte.
void StoreNibbles(absl::Span<const uint8_t> codes, uint8_t* out) {
  for (size_t begin = 0; begin < kLargeBlock; begin += 64) {
    for (size_t i = begin; i < begin + 32; ++i) {
      *out++ = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 32] & 15) << 4);
    }
  }
}

void QuantizeQ4_K(Values values, uint8_t* out) {
  StoreNibbles(QuantizeGroups(values, {.max_code = 15.0f, .first = -1.0f, .steps = 20}, out),
               out + 16);
}

void QuantizeQ5_K(Values values, uint8_t* out) {
  const auto codes = QuantizeGroups(values, {.max_code = 31.0f, .first = -0.5f, .steps = 15}, out);
  uint8_t* const fifths = out + 16;
  std::fill_n(fifths, 32, uint8_t{0});
  for (size_t i = 0; i < kLargeBlock; ++i) {
    fifths[i % 32] |= static_cast<uint8_t>(codes[i] >> 4 << (i / 32));
  }
  StoreNibbles(codes, out + 48);
}

// Finds the scale with the least squared error, weighted by the squares of the values, for codes of
// -32 to 31.
float FitScale(Values values) {
  constexpr float kCodes = 32.0f;
  constexpr float kStep = 0.1f;
  const float largest = Largest(values);
  if (std::abs(largest) < kTinyMagnitude) return 0.0f;
  float best_scale = 0.0f;
  float best = 0.0f;
  // The first candidate reaches the largest magnitude exactly, and stands if the codes are all 0.
  const auto consider = [&](float codes, bool is_first) {
    const float inverse = -codes / largest;
    float sum_lx = 0.0f;
    float sum_ll = 0.0f;
    for (const float value : values) {
      const float code = Nearest(inverse * value, -32, 31);
      const float weight = value * value;
      sum_lx += weight * value * code;
      sum_ll += weight * code * code;
    }
    if (is_first ? sum_ll == 0.0f : !(sum_ll > 0.0f && sum_lx * sum_lx > best * sum_ll)) return;
    best_scale = sum_lx / sum_ll;
    best = best_scale * sum_lx;
  };
  consider(kCodes, /*is_first=*/true);
  for (int step = -9; step <= 9; ++step) {
    if (step != 0) consider(kCodes + kStep * static_cast<float>(step), /*is_first=*/false);
  }
  return best_scale;
}

void QuantizeQ6_K(Values values, uint8_t* out) {
  constexpr size_t kGroup = 16;
  constexpr size_t kGroups = kLargeBlock / kGroup;
  constexpr size_t kLowBytes = 128;
  constexpr size_t kHighBytes = 64;
  std::array<float, kGroups> scales;
  for (size_t g = 0; g < kGroups; ++g) scales[g] = FitScale(values.subspan(g * kGroup, kGroup));
  const float largest = Largest(scales);
  uint8_t* const high = out + kLowBytes;
  uint8_t* const scale_codes = high + kHighBytes;
  if (std::abs(largest) < kTinyMagnitude) {
    std::fill_n(out, SizeOf(GgufBlock::kQ6_K).bytes, uint8_t{0});
    return;
  }
  const float inverse = -128.0f / largest;
  const float unit = StoreHalf(1.0f / inverse, scale_codes + kGroups);
  // Codes are stored plus 32. If the scale is 0, every code has the same value.
  std::array<uint8_t, kLargeBlock> codes{};
  for (size_t g = 0; g < kGroups; ++g) {
    const float scale_code = Nearest(inverse * scales[g], -128, 127);
    scale_codes[g] = static_cast<uint8_t>(static_cast<int8_t>(scale_code));
    const float scale = unit * scale_code;
    if (scale == 0.0f) continue;
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      codes[i] = static_cast<uint8_t>(Nearest(values[i] / scale, -32, 31) + 32);
    }
  }
  // In each group of 128 elements, the low four bits of i and i + 64 share a byte, and so do the
  // upper two bits of i, i + 32, i + 64 and i + 96.
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* const c = codes.data() + 128 * half;
    for (size_t i = 0; i < 64; ++i) {
      out[64 * half + i] = static_cast<uint8_t>((c[i] & 15) | (c[i + 64] & 15) << 4);
    }
    for (size_t i = 0; i < 32; ++i) {
      high[32 * half + i] = static_cast<uint8_t>(c[i] >> 4 | c[i + 32] >> 4 << 2 |
                                                 c[i + 64] >> 4 << 4 | c[i + 96] >> 4 << 6);
    }
  }
}

}  // namespace

GgufBlockSize SizeOf(GgufBlock type) {
  switch (type) {
    case GgufBlock::kQ5_0:
      return {kSmallBlock, 2 + 4 + 16};
    case GgufBlock::kQ5_1:
      return {kSmallBlock, 2 + 2 + 4 + 16};
    case GgufBlock::kQ8_0:
      return {kSmallBlock, 2 + 32};
    case GgufBlock::kQ4_K:
      return {kLargeBlock, 2 + 2 + 12 + 128};
    case GgufBlock::kQ5_K:
      return {kLargeBlock, 2 + 2 + 12 + 32 + 128};
    case GgufBlock::kQ6_K:
      return {kLargeBlock, 128 + 64 + 16 + 2};
  }
  ZEROTH_CHECK(false);
}

void QuantizeBlocks(GgufBlock type, Values values, absl::Span<uint8_t> blocks) {
  const GgufBlockSize size = SizeOf(type);
  const auto elements = static_cast<size_t>(size.elements);
  const size_t count = values.size() / elements;
  ZEROTH_CHECK(count * elements == values.size() &&
               count * static_cast<size_t>(size.bytes) == blocks.size());
  void (*quantize)(Values, uint8_t*) = type == GgufBlock::kQ5_0   ? QuantizeQ5_0
                                       : type == GgufBlock::kQ5_1 ? QuantizeQ5_1
                                       : type == GgufBlock::kQ8_0 ? QuantizeQ8_0
                                       : type == GgufBlock::kQ4_K ? QuantizeQ4_K
                                       : type == GgufBlock::kQ5_K ? QuantizeQ5_K
                                                                  : QuantizeQ6_K;
  for (size_t i = 0; i < count; ++i) {
    quantize(values.subspan(i * elements, elements),
             blocks.data() + i * static_cast<size_t>(size.bytes));
  }
}

}  // namespace zeroth
