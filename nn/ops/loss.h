// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_NN_OPS_LOSS_H_
#define ZEROTH_NN_OPS_LOSS_H_

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Mean cross-entropy of hidden [batch, seq, dim] projected by weight [vocab, dim] against targets
// int32 [batch, seq]
// (-100: left out) → [1]; with context.loss_divisor(), their sum divided by that. The head of a
// model and the start of backward: its gradients, of context.loss_scale() * loss, are computed here
// with the loss, in chunks, so that full logits never exist.
absl::StatusOr<Value> LinearCrossEntropyOp(Context& context, const Value& hidden, Parameter& weight,
                                           const Tensor& targets);

}  // namespace zeroth

#endif  // ZEROTH_NN_OPS_LOSS_H_
