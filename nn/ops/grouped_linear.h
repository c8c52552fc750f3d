// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// One projection's weights [out, in] of all experts.
using ExpertWeights = std::vector<Parameter*>;
// A projection, and of each expert the matrices of its LoRA adapter, a [rank, in] and b [out,
// rank], and its bias [out]; or none.
struct ExpertProjection {
  ExpertWeights weights;
  ExpertWeights a = {};
  ExpertWeights b = {};
  ExpertWeights biases = {};
};
// grouped [rows, in] → [rows, sum of the projections' out]: each row times its expert's matrices of
// all projections, side by side, plus their biases, and scale * (row a) b for adapters. If weights
// are divided by outputs, the gradient of `grouped` is this rank's summand, which ScatterOp adds
// up. If they are divided by depth (one projection only), the result is this rank's summand, which
// CombineOp adds up, and the first piece of all has the bias. Adapters are divided as AddLowRankOp
// says; ranks sum the tensor between A and B.
absl::StatusOr<Value> GroupedLinearOp(Context& context, const Value& grouped, const Tensor& offsets,
                                      const std::vector<ExpertProjection>& projections,
                                      float scale = 1);

// Returns piece number `index` of `grouped`, whose pieces follow each other. A piece has `pairs`
// rows, one for each pair of a token and an expert.
Tensor PieceOf(const Tensor& grouped, int64_t index, int64_t pairs);

}  // namespace zeroth
