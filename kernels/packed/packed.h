// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {

// values = a block of a packed matrix, or all of it: the rows from `row` on and the columns from
// `col` on, a multiple of shape.block(). Each value is rounded once to the type of `values`.
// Deterministic.
struct UnpackArgs {
  PackedShape shape;  // of the whole matrix
  Tensor codes;       // uint8 [rows, shape.CodeBytes(cols)], of the block
  Tensor scales;      // uint8 [shape.scale_bytes()], of the whole matrix; undefined if there are 0
  int64_t row = 0;
  int64_t col = 0;
  Tensor values;  // [rows, cols] fp32, bf16 or fp16
  // Of an expert's matrix: the begin and the end of the rows of activations that it multiplies,
  // int32 [2], as in Routing::offsets. If there are none, values are left unwritten. Or undefined.
  Tensor multiplied = {};
};

namespace kernels {

absl::Status Unpack(Kernels& kernels, const UnpackArgs& args);

}  // namespace kernels

// The checked arguments.
struct UnpackCall {
  PackedShape shape;
  int64_t row = 0;
  int64_t col = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  DType dtype = DType::kFloat32;
  void* values = nullptr;
  const int32_t* multiplied = nullptr;  // or null

  constexpr bool IsUnused() const {
    return multiplied != nullptr && multiplied[0] == multiplied[1];
  }

  // Returns the kNf4 block, counted in the whole matrix, of the first value in row `i` of `values`.
  constexpr int64_t FirstBlock(int64_t i) const {
    return ((row + i) * shape.cols + col) / PackedShape::kNf4Block;
  }
};

}  // namespace zeroth
