// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/nn/tape.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {

// Computes a router's logits, fp32 [.., experts], from x [.., dim], weight [experts, dim] and bias
// [experts] or nullptr. Neither the logits nor their gradient are rounded to the dtype of x or of
// the weight, and backward's matmuls have fp32 operands. With fp32 x and weight this is LinearOp.
absl::StatusOr<Value> Fp32RouterOp(Context& context, const Value& x, Parameter& weight,
                                   Parameter* bias = nullptr);

// The experts of each token, and their weights, fp32 [tokens, top_k]; see kernels::Route.
struct RoutedTokens {
  Value weights;
  Routing routing;
};
// logits are [.., experts]; the leading dimensions together are the tokens. InvalidArgument unless
// top_k is 1 to experts.
absl::StatusOr<RoutedTokens> RouteOp(Context& context, const Value& logits, int64_t top_k,
                                     const RouteWeights& how, const Tensor& bias = Tensor());

// Adds the loss that balances experts (Fedus et al., "Switch transformers", 2021, section 2.2) to
// Context::extra_loss, and its gradient to that of `logits` [sequences, tokens, experts]:
// coefficient * the mean over sequences of experts * sum over e of f_e P_e, where f_e is the number
// of pairs of a token and expert e over the number of tokens, and P_e the mean of softmax(logits)
// over the tokens. Each sequence has a separate loss, so that it does not depend on the other
// sequences of its micro-batch.
absl::Status BalanceOp(Context& context, const Value& logits, const Routing& routing,
                       float coefficient);

// Adds the router z-loss (kernels::RouterZLoss) to Context::extra_loss, and its gradient to that of
// `logits` [.., experts]: coefficient * its mean over tokens.
absl::Status RouterZLossOp(Context& context, const Value& logits, float coefficient);

// x [.., dim] → [tokens * top_k, dim], the rows of each expert together. Without `ranks`, `all` is
// x's data. With `ranks`, among which experts are divided, x may be this rank's share of the rows,
// and `all` has all of them. The gradient of the result is then [pieces * tokens * top_k, dim] in
// SumType, a summand for each deterministic piece of this rank; the gradient of x is the sum over
// pieces and ranks.
absl::StatusOr<Value> ScatterOp(Context& context, const Value& x, const Tensor& all,
                                const Routing& routing, TensorRanks* ranks);
// The inverse: each token becomes the weighted sum of its rows, in the shape and type of `like`
// [.., dim]. With `ranks`, `grouped` has summands for this rank's pieces, as above, and the result
// is the sum over pieces and ranks. It has this rank's share of the rows if rows are shared. The
// gradient of `grouped` is that of the sum, [tokens * top_k, dim].
absl::StatusOr<Value> CombineOp(Context& context, const Value& grouped, const RoutedTokens& routed,
                                const Tensor& like, TensorRanks* ranks);

}  // namespace zeroth
