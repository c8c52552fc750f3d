// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_NN_OPS_GROUPED_LINEAR_H_
#define ZEROTH_NN_OPS_GROUPED_LINEAR_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Of each projection the weights [out, in] of all experts.
using ExpertWeights = std::vector<Parameter*>;
// grouped [rows, in] → [rows, sum of the projections' out]: each row times the matrices of its own
// expert, side by side. Where weights are divided by outputs the gradient of `grouped` is a rank's
// summand, as ScatterOp takes it. Where they are divided by depth, the one projection's, so is the
// result, as CombineOp takes it.
absl::StatusOr<Value> GroupedLinearOp(Context& context, const Value& grouped, const Tensor& offsets,
                                      const std::vector<ExpertWeights>& projections);

// The `index`-th of the pieces that `grouped` has one after the other, each with `pairs` rows, one
// for each pair of a token and an expert.
Tensor PieceOf(const Tensor& grouped, int64_t index, int64_t pairs);

}  // namespace zeroth

#endif  // ZEROTH_NN_OPS_GROUPED_LINEAR_H_
