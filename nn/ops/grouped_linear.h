// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// The same parameter of all experts, as the weight of one projection.
using ExpertWeights = std::vector<Parameter*>;
// One projection. Each member has a parameter for each expert, or is empty.
struct ExpertProjection {
  ExpertWeights weights;      // [out, in]; not empty
  ExpertWeights a = {};       // of LoRA adapters: [rank, in]
  ExpertWeights b = {};       // [out, rank]
  ExpertWeights biases = {};  // [out]
  // The packed forms of `weights`, which are then frozen.
  std::vector<const PackedWeight*> packed = {};
};
// A GPU multiplies several small experts at once, so they are unpacked at once.
inline constexpr int64_t kMostUnpacked = int64_t{1} << 24;

// grouped [rows, in] → [rows, sum of the projections' out]: each row times its expert's matrices of
// all projections, side by side, plus their biases, and scale * (row a) b for adapters. If weights
// are divided by outputs, the gradient of `grouped` is this rank's summand, which ScatterOp adds
// up. If they are divided by depth (one projection only), the result is this rank's summand, which
// CombineOp adds up, and the first piece of all has the bias. Adapters are divided as AddLowRankOp
// says; ranks sum the tensor between A and B. Packed weights are unpacked in the type of `grouped`
// before each matmul: of as many experts at a time as have kMostUnpacked elements, or of one.
absl::StatusOr<Value> GroupedLinearOp(Context& context, const Value& grouped, const Tensor& offsets,
                                      const std::vector<ExpertProjection>& projections,
                                      float scale = 1);

// Returns piece number `index` of `grouped`, whose pieces follow each other. A piece has `pairs`
// rows, one for each pair of a token and an expert.
Tensor PieceOf(const Tensor& grouped, int64_t index, int64_t pairs);

}  // namespace zeroth
