// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Documents of both operations are those of Context::document_starts. Parameters may be divided
// among tensor ranks, each of which has whole heads, and their channels. With Context::cache,
// ShortConvolutionOp resumes from the state cached under &weight, GatedDeltaRuleOp from that under
// &log_decay; a parameter may be used once per forward (FailedPrecondition).

// silu(causal convolution of each channel of x [batch, seq, channels]), with `weight` [channels, 1,
// width].
absl::StatusOr<Value> ShortConvolutionOp(Context& context, const Value& x, Parameter& weight);

// kernels::GatedDeltaRule of qkv [batch, seq, packed_dim] and gates [batch, seq, 2 * value_heads] →
// [batch, seq, value_heads * value_dim]. The batch and seq of `shape` are set from qkv.
absl::StatusOr<Value> GatedDeltaRuleOp(Context& context, const Value& qkv, const Value& gates,
                                       Parameter& log_decay, Parameter& dt_bias,
                                       DeltaNetShape shape);

}  // namespace zeroth
