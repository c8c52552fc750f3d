// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/mxfp4.h"

#include <array>
#include <bit>
#include <cstddef>

namespace zeroth {
namespace {

// Values of E2M1.
constexpr std::array<float, 16> kE2m1 = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// 2^(byte - 127): 2^-127 is subnormal, and 255 gives infinity as in transformers.
float ScaleOf(uint8_t byte) {
  return std::bit_cast<float>(byte == 0 ? 0x00400000u : static_cast<uint32_t>(byte) << 23);
}

}  // namespace

void DecodeMxfp4(absl::Span<const uint8_t> codes, absl::Span<const uint8_t> scales,
                 absl::Span<float> out) {
  for (size_t i = 0; i < codes.size(); ++i) {
    const float scale = ScaleOf(scales[i / kMxfp4BlockBytes]);
    out[2 * i] = kE2m1[codes[i] & 15] * scale;
    out[2 * i + 1] = kE2m1[codes[i] >> 4] * scale;
  }
}

std::vector<uint8_t> GgufBlocksOfMxfp4(absl::Span<const uint8_t> codes,
                                       absl::Span<const uint8_t> scales, const Mxfp4Rows& rows) {
  const auto row = static_cast<size_t>(rows.blocks);
  const auto step = static_cast<size_t>(rows.step);
  std::vector<uint8_t> blocks;
  blocks.reserve((scales.size() / step + row) * kGgufMxfp4Bytes);
  for (size_t block = 0; block < scales.size(); ++block) {
    if (block / row % step != 0) continue;
    const auto code = [&](size_t i) {
      return codes[block * kMxfp4BlockBytes + i / 2] >> (i % 2 * 4) & 15;
    };
    blocks.push_back(scales[block]);
    for (size_t j = 0; j < kMxfp4BlockBytes; ++j) {
      blocks.push_back(static_cast<uint8_t>(code(j) | code(j + kMxfp4BlockBytes) << 4));
    }
  }
  return blocks;
}

}  // namespace zeroth
