// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/rope/rope.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Causal self-attention over packed queries, keys and values [batch, seq, (heads + 2 * kv_heads) *
// head_dim] → [batch, seq, heads * head_dim]. With `rope`, queries and keys are first rotated in
// place, so nothing else may use qkv. Documents are those of Context::document_starts. The batch
// and seq of `shape` are set from the tensor. `sinks` [heads] is a logit for each head
// (kernels/attention/sinks.h), or nullptr; if heads are divided, this rank has those of its heads.
absl::StatusOr<Value> AttentionOp(Context& context, const Value& qkv, AttentionShape shape,
                                  const std::optional<RopeSpec>& rope, Parameter* sinks = nullptr);

// Like AttentionOp, for tokens that follow those in the context's cache. Their keys and values are
// added to the cache under `layer`. Records nothing.
absl::StatusOr<Value> CachedAttentionOp(Context& context, const Value& qkv, AttentionShape shape,
                                        const std::optional<RopeSpec>& rope, const void* layer,
                                        const Parameter* sinks = nullptr);

}  // namespace zeroth
