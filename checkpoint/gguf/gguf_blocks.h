// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The block-quantised types of ggml that models are exported in. A row of a matrix is divided into
// blocks of consecutive elements, which share half-precision scales.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/types/span.h"

namespace zeroth {

// The values are ggml's numbers.
//
// kQ8_0: 32 elements as int8, and their scale.
// kQ5_0: 32 elements of 5 bits, and their scale. kQ5_1: the same, and their minimum.
// kQ4_K, kQ5_K: 256 elements of 4 or 5 bits in eight groups, each with a 6-bit scale and a 6-bit
// minimum.
// kQ6_K: 256 elements of 6 bits in sixteen groups, each with an 8-bit scale.
enum class GgufBlock : uint32_t {
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
};

// The types of the tensors of a file that are stored in blocks, by name.
using GgufBlockTypes = std::map<std::string, GgufBlock, std::less<>>;

struct GgufBlockSize {
  int64_t elements;
  int64_t bytes;
};
GgufBlockSize SizeOf(GgufBlock type);

// Quantises whole blocks as ggml's reference functions do, which choose scales without an
// importance matrix. The bytes are the same, except the codes of groups whose scale is 0, which
// mean nothing, and ties of kQ5_0, which depend on how ggml was compiled. The magnitude of every
// value must be at most 65504. `blocks` must have the size of the result.
void QuantizeBlocks(GgufBlock type, absl::Span<const float> values, absl::Span<uint8_t> blocks);

}  // namespace zeroth
