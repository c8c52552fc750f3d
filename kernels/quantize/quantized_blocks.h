// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The memory layout of block-quantised values: one contiguous run of bytes that can be sent as it
// is.

#ifndef ZEROTH_KERNELS_QUANTIZE_QUANTIZED_BLOCKS_H_
#define ZEROTH_KERNELS_QUANTIZE_QUANTIZED_BLOCKS_H_

#include <cstdint>

namespace zeroth {

// `count` values in blocks of `block`, the last of which may be shorter: one int8 code for each
// value, then, from the next multiple of 16 bytes on, one fp32 scale for each block. A value is
// code * scale. Sizes are multiples of 16 bytes, so that consecutive pieces are aligned. constexpr,
// since device code uses it too.
struct QuantizedBlocks {
  int64_t count = 0;
  int64_t block = 1;  // at least 1

  static constexpr int64_t kAlignment = 16;
  static constexpr float kMostCode = 127.0f;
  // Blocks whose largest magnitude is below this become zeros, because the reciprocal of their
  // scale would overflow.
  static constexpr float kSmallestMagnitude = 1e-30f;

  constexpr int64_t blocks() const { return (count + block - 1) / block; }
  constexpr int64_t scales_offset() const { return Aligned(count); }
  constexpr int64_t bytes() const {
    return scales_offset() + Aligned(blocks() * static_cast<int64_t>(sizeof(float)));
  }

 private:
  static constexpr int64_t Aligned(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_QUANTIZE_QUANTIZED_BLOCKS_H_
