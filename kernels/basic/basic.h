// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Small operations for authors of layers, where no fused kernel exists: elementwise operations,
// row-wise softmax, and means. One function computes all of them, on matrices whose rows may be
// further apart than they are wide, so that it can also copy parts of a tensor.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw/rounding.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// The operation that computes `out`. In a Backward, b is the gradient of the operation's result.
enum class BasicOp : uint8_t {
  // Elementwise. All matrices have one shape, and `out` may be a or b. a or b with a stride of 0 is
  // one row, which is read again for each row of `out`.
  kScale,            // scalar * a
  kMultiply,         // a * b; see BasicArgs::out for its types
  kRelu,             // the larger of a and 0
  kReluBackward,     // b where a > 0, else 0; a is the operation's argument or its result
  kSilu,             // a / (1 + e^-a)
  kSiluBackward,     // b times the slope at a, the operation's argument
  kTanh,             // tanh(a)
  kSoftCap,          // scalar * tanh(a / scalar), scalar above 0
  kTanhBackward,     // b * (1 - a^2), a the operation's result
  kSigmoid,          // 1 / (1 + e^-a)
  kSigmoidBackward,  // b * a * (1 - a), a the operation's result
  kDropout,          // 0 where DropsElement says so, else a / (1 - scalar); its own backward
  kFill,             // scalar; a is undefined
  // Row-wise. All matrices have one shape, and `out` may be a or b.
  kSoftmax,          // e^a over the sum of e^a along the row
  kSoftmaxBackward,  // a * (b - sum of a * b along the row), a the operation's result
  // Over `group` neighbouring rows.
  kMean,          // out[r] = mean of rows [r * group, (r + 1) * group) of a
  kMeanBackward,  // out[r] = a[r / group] / group
};

// Decides which elements a dropout drops, by their index alone: independent of ranks, calls and
// devices.
struct DropoutDraws {
  RoundingKey key = {};       // from MakeDropoutKey
  uint64_t stream = 0;        // identifies the place in the model, see HashName of philox.h
  int64_t first_element = 0;  // index of the matrix's first element; the others follow row by row
  // Distance in indices from one row's first element to the next row's; 0: the columns. Larger if
  // the matrix is a slice of columns of a wider one whose elements are counted.
  int64_t row_elements = 0;
};
// Returns the key for a seed and step. Its draws are independent of every CounterRng of the seed
// and of stochastic rounding.
RoundingKey MakeDropoutKey(uint64_t seed, int64_t step);
// Returns whether an element is dropped: whether word element % 4 of the Philox 4x32-10 block with
// counter {element / 4, stream} and the key of `draws` is below the threshold.
bool DropsElement(const DropoutDraws& draws, int64_t element, uint32_t threshold);
// Returns rate * 2^32, rounded down, for a rate in [0, 1).
uint32_t DropoutThreshold(float rate);

struct BasicArgs {
  BasicOp op = BasicOp::kScale;
  Matrix a = {};
  Matrix b = {};
  // One element type for all three: fp32, bf16 or fp16. Beside an `a` of 16 bits, b and `out` of
  // kMultiply may be fp32 instead, either or both.
  Matrix out = {};
  bool accumulate = false;  // add to out, in fp32, and round once
  float scalar = 1;         // kScale, kSoftCap, kFill; the rate of kDropout, in [0, 1)
  int64_t group = 1;        // at least 1
  DropoutDraws draws = {};
};

namespace kernels {

absl::Status Basic(Kernels& kernels, const BasicArgs& args);

}  // namespace kernels

// The checked arguments. Strides are distances between rows, in elements.
struct BasicCall {
  BasicOp op = BasicOp::kScale;
  DType dtype = DType::kFloat32;  // of a
  DType b_dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  int64_t rows = 0;  // of out
  int64_t cols = 0;
  const void* a = nullptr;
  int64_t a_stride = 0;
  const void* b = nullptr;  // `a` stands in for a missing b, and `out` for a missing a
  int64_t b_stride = 0;
  void* out = nullptr;
  int64_t out_stride = 0;
  bool accumulate = false;
  float scalar = 1;
  int64_t group = 1;
  DropoutDraws draws = {};
};

}  // namespace zeroth
