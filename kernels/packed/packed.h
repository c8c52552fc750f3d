// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {

// values = the values of a packed matrix, or of a block of it: rows from `row`, columns from `col`,
// a multiple of shape.block(), each value rounded once to the type of `values`. Deterministic.
struct UnpackArgs {
  PackedShape shape;  // of the whole matrix
  Tensor codes;       // uint8 [rows, shape.CodeBytes(cols)], of the block
  Tensor scales;      // uint8 [shape.scale_bytes()], of the whole matrix; undefined if there are 0
  int64_t row = 0;
  int64_t col = 0;
  Tensor values;  // [rows, cols] fp32, bf16 or fp16
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

  // Of the whole matrix: the block of kNf4 with the first value of row `i` of the values.
  constexpr int64_t FirstBlock(int64_t i) const {
    return ((row + i) * shape.cols + col) / PackedShape::kNf4Block;
  }
};

}  // namespace zeroth
