// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The memory layout of block-quantised values: one contiguous run of bytes that can be sent as it
// is.
//
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

// Quantises values to int8 codes with one fp32 scale for each block: the largest magnitude / 127.
// QuantizedBlocks describes the layout. code = value / scale, rounded to nearest, ties to even, so
// that an error is at most half a scale. A block with an infinity or NaN has scale NaN and is
// restored as NaN, so that an overflow does not go unnoticed. Deterministic.
struct QuantizeArgs {
  Tensor values;  // [n] fp32, bf16 or fp16
  int64_t block = 256;
  Tensor quantized;  // uint8 [QuantizedBlocks{n, block}.bytes()]
};

struct DequantizeArgs {
  Tensor quantized;    // uint8 [pieces * QuantizedBlocks{n, block}.bytes()]
  int64_t pieces = 1;  // each quantised separately
  int64_t block = 256;
  Tensor values;  // [pieces * n] fp32, bf16 or fp16
};

// sum = (mean of pieces or) sum of pieces, along the tree of core/comm/communicator.h in fp32; each
// result is rounded once.
struct SumQuantizedArgs {
  Tensor quantized;  // uint8 [pieces * QuantizedBlocks{n, block}.bytes()]
  int64_t pieces = 1;
  int64_t block = 256;
  bool mean = false;
  Tensor sum;               // [n] fp32, bf16 or fp16
  bool accumulate = false;  // add to sum, which is fp32
};

namespace kernels {

absl::Status Quantize(Kernels& kernels, const QuantizeArgs& args);
absl::Status Dequantize(Kernels& kernels, const DequantizeArgs& args);
absl::Status SumQuantized(Kernels& kernels, const SumQuantizedArgs& args);

}  // namespace kernels

// The checked arguments. `shape` describes one piece.
struct QuantizeCall {
  QuantizedBlocks shape;
  DType dtype = DType::kFloat32;
  const void* values = nullptr;
  uint8_t* quantized = nullptr;
};
struct DequantizeCall {
  QuantizedBlocks shape;
  int64_t pieces = 1;
  const uint8_t* quantized = nullptr;
  DType dtype = DType::kFloat32;
  void* values = nullptr;
};
struct SumQuantizedCall {
  QuantizedBlocks shape;
  int64_t pieces = 1;
  const uint8_t* quantized = nullptr;
  bool accumulate = false;
  float factor = 1.0f;  // of the sum: 1 / pieces for a mean
  DType dtype = DType::kFloat32;
  void* sum = nullptr;
};

}  // namespace zeroth
