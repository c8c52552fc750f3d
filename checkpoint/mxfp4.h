// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// MXFP4 (OCP Microscaling Formats, 2023) in the files of gpt-oss: 16 bytes of a block have two E2M1
// codes each, the first in the lower half; the block's 32 codes share a scale of 2^(byte - 127).

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace zeroth {

inline constexpr int64_t kMxfp4Block = 32;
inline constexpr int64_t kMxfp4BlockBytes = 16;
inline constexpr int64_t kGgufMxfp4Bytes = 1 + kMxfp4BlockBytes;  // of a block in GGUF

// Sets `out` to the values of whole blocks, which has kMxfp4Block elements for each scale.
void DecodeMxfp4(absl::Span<const uint8_t> codes, absl::Span<const uint8_t> scales,
                 absl::Span<float> out);

// Selects rows 0, step, 2 step, ...; a row has `blocks` blocks.
struct Mxfp4Rows {
  int64_t blocks = 1;
  int64_t step = 1;
};
// Returns the blocks of rows as GGUF stores them (PackedFormat::kMxfp4): the scale, then bytes that
// have code j in the lower half, and code j + 16 in the upper half.
std::vector<uint8_t> GgufBlocksOfMxfp4(absl::Span<const uint8_t> codes,
                                       absl::Span<const uint8_t> scales, const Mxfp4Rows& rows);

}  // namespace zeroth
