// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {

// values = a block of a packed matrix, or all of it: the rows from `row` on and the columns from
// `col` on, a multiple of shape.block(). Each value is rounded once to the type of `values`. The
// same block of several matrices, such as those of experts, takes one launch for up to 128 on a
// GPU and one parallel loop on a CPU. Deterministic.
struct UnpackArgs {
  struct Block {
    Tensor codes;   // uint8 [rows, shape.CodeBytes(cols)], of the block
    Tensor scales;  // uint8 [shape.scale_bytes()], of the whole matrix; undefined if there are 0
    Tensor values;  // [rows, cols] fp32, bf16 or fp16; of one shape and type in all blocks
  };
  PackedShape shape;  // of each whole matrix
  int64_t row = 0;
  int64_t col = 0;
  std::vector<Block> blocks;  // one for each matrix; not empty
  // Row offsets of each expert's activations, int32 [matrices + 1], as in Routing::offsets. Values
  // of a matrix without rows are left unwritten. Undefined if all are used.
  Tensor offsets = {};
};

namespace kernels {

absl::Status Unpack(Kernels& kernels, const UnpackArgs& args);

}  // namespace kernels

// What the blocks of a call share.
struct UnpackShape {
  PackedShape shape;
  int64_t row = 0;
  int64_t col = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  const int32_t* offsets = nullptr;  // or null

  constexpr bool IsUnused(size_t block) const {
    return offsets != nullptr && offsets[block] == offsets[block + 1];
  }

  // Returns the kNf4 block, counted in the whole matrix, of the first value in row `i` of `values`.
  constexpr int64_t FirstBlock(int64_t i) const {
    return ((row + i) * shape.cols + col) / PackedShape::kNf4Block;
  }
};
struct UnpackArrays {
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;  // null if there are none
  void* values = nullptr;
};
// The checked arguments.
struct UnpackCall : UnpackShape {
  DType dtype = DType::kFloat32;
  std::vector<UnpackArrays> blocks;
};

}  // namespace zeroth
