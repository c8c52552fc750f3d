// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// tokens int32 [batch, seq] → [batch, seq, dim]: each token's row of `table` [vocab, dim]. If
// `positions` [max_seq, dim] is not nullptr, adds the row of the token's position, which counts
// from Context::first_position. InvalidArgument for a token outside the vocabulary, or a sequence
// longer than max_seq.
absl::StatusOr<Value> EmbeddingOp(Context& context, const Tensor& tokens, Parameter& table,
                                  Parameter* positions);

}  // namespace zeroth
