// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// InvalidArgument, with the shapes, unless `hidden` is [batch, seq, dim], the head's `weight`
// [vocab, dim] and `targets` int32 [batch, seq].
absl::Status ExpectHead(const Tensor& hidden, const Parameter& weight, const Tensor& targets);

// Mean cross-entropy, [1], of hidden [batch, seq, dim] projected by weight [vocab, dim] against
// targets int32 [batch, seq], which are ignored where they are -100. The sum over the others is
// divided by their number, or by context.token_divisor() if that is defined. If `logit_cap` is
// above 0, logits are capped (LinearCrossEntropyArgs::logit_cap). With context.objective(), the
// loss is that of the objective.
//
// This is the head of a model, where backward starts: the gradients of context.loss_scale() * loss
// are computed together with the loss, in chunks, so that full logits never exist. So backward
// fails if another operation follows, if a second such loss was recorded, or if the loss is in a
// module that is recomputed (Module::set_recomputes).
absl::StatusOr<Value> LinearCrossEntropyOp(Context& context, const Value& hidden, Parameter& weight,
                                           const Tensor& targets, float logit_cap = 0);

}  // namespace zeroth
