// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_NN_OPS_MOE_H_
#define ZEROTH_NN_OPS_MOE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Where each token goes, and with what weights, [tokens, top_k] in fp32; see kernels::Route.
struct RoutedTokens {
  Value weights;
  Routing routing;
};
// logits [.., experts], the leading dimensions together the tokens. InvalidArgument unless top_k is
// 1 to experts.
absl::StatusOr<RoutedTokens> RouteOp(Context& context, const Value& logits, int64_t top_k,
                                     bool normalize);

// x [.., dim] → [tokens * top_k, dim], the rows of each expert together.
absl::StatusOr<Value> ScatterOp(Context& context, const Value& x, const Routing& routing);
// The way back: of each token the weighted sum of its rows, in the shape `shape` [.., dim].
absl::StatusOr<Value> CombineOp(Context& context, const Value& grouped, const RoutedTokens& routed,
                                const Shape& shape);

// Of each projection the weights [out, in] of all experts.
using ExpertWeights = std::vector<Parameter*>;
// grouped [rows, in] → [rows, sum of the projections' out]: each row times the matrices of its own
// expert, side by side.
absl::StatusOr<Value> GroupedLinearOp(Context& context, const Value& grouped, const Tensor& offsets,
                                      const std::vector<ExpertWeights>& projections);

}  // namespace zeroth

#endif  // ZEROTH_NN_OPS_MOE_H_
