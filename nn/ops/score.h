// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// The loss of a head with one output, weight [1, dim]. Computes the scores of hidden [batch, seq,
// dim], and passes the negative scores to context.objective(), which must be set, in place of the
// losses of tokens. Targets, int32 [batch, seq], that are -100 do not count; their losses are not
// 0, and the objective's weights must be 0 there. Scores are fp32. As LinearCrossEntropyOp, it
// computes its gradients together with the loss, so that no other operation may follow.
absl::StatusOr<Value> ScoreLossOp(Context& context, const Value& hidden, Parameter& weight,
                                  const Tensor& targets);

}  // namespace zeroth
