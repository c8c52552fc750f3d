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
#include "zeroth/nn/tensor_ranks.h"

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

// Adds the loss that balances experts (Fedus et al., "Switch transformers", 2021, section 2.2) to
// Context::extra_loss, and its gradient to that of `logits` [sequences, tokens, experts]:
// coefficient * the mean over sequences of experts * sum over e of f_e P_e, where f_e is the number
// of pairs of a token and expert e over the number of tokens, and P_e the mean of softmax(logits)
// over the tokens. Each sequence has a loss of its own, so that none depends on what else is in its
// micro-batch.
absl::Status BalanceOp(Context& context, const Value& logits, const Routing& routing,
                       float coefficient);

// x [.., dim] → [tokens * top_k, dim], the rows of each expert together. With `ranks`, which share
// the experts between them, x may be this rank's share of the rows, of which `all` has all;
// without, `all` is x's data. Its gradient is then the sum over ranks of the rows' gradients, of
// which there are as many as this rank has deterministic pieces, one after the other, in SumType:
// [pieces * tokens * top_k, dim].
absl::StatusOr<Value> ScatterOp(Context& context, const Value& x, const Tensor& all,
                                const Routing& routing, TensorRanks* ranks);
// The way back: of each token the weighted sum of its rows, in the shape and type of `like`
// [.., dim]. With `ranks`, `grouped` has the rows of this rank's pieces, as above, and the result
// is the sum over these and over ranks; it has this rank's share of the rows where rows are shared.
// The gradient of `grouped` is that of the sum, [tokens * top_k, dim].
absl::StatusOr<Value> CombineOp(Context& context, const Value& grouped, const RoutedTokens& routed,
                                const Tensor& like, TensorRanks* ranks);

}  // namespace zeroth

#endif  // ZEROTH_NN_OPS_MOE_H_
