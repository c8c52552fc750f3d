// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

class Context;

// A loss that is computed from the losses of a micro-batch's tokens, as those of preference pairs
// are. A model's loss is the mean over its tokens, or this (Context::UseObjective). An objective
// costs one more product of the hidden states and the head, since the losses of tokens come before
// the weights of their gradients.
class TokenObjective {
 public:
  struct Result {
    Tensor loss;     // fp32 [1]
    Tensor weights;  // fp32 [batch, seq]: the derivative of `loss` by the loss of each token
  };

  virtual ~TokenObjective() = default;

  // `losses`, fp32 [batch, seq]: -log p(target), or 0 where the target, int32 [batch, seq], is -100
  // and does not count. Enqueues its work on the context's compute stream. `weights` are not read
  // while the context does not record, as in evaluation. Every rank of a group of tensor ranks
  // calls it, with the same losses.
  //
  // Gradients are averaged over micro-batches and ranks. For a mean over the samples of the global
  // batch, divide by Context::token_divisor where it is defined.
  virtual absl::StatusOr<Result> Apply(Context& context, const Tensor& losses,
                                       const Tensor& targets) = 0;
};

}  // namespace zeroth
