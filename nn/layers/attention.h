// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/kernels/attention/attention.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/layers/norm.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/ops/attention.h"

namespace zeroth {

struct AttentionOptions {
  int64_t heads = 0;
  // Divides heads. Fewer than heads: grouped-query attention (Ainslie et al., 2023).
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t window = 0;            // AttentionShape::window
  float scale = 0;               // AttentionShape::scale
  float cap = 0;                 // AttentionShape::cap
  std::optional<RopeSpec> rope;  // rotary positions, or none
  // Initial values of the parameter "sinks" [heads] (AttentionOp), or none: there is no such
  // parameter.
  std::optional<Initializer> sinks;
  // `qkv` makes, after each query head, as many gates, and the heads' outputs are multiplied by
  // their sigmoids (Qiu et al., "Gated attention for large language models", 2025). Only with norms
  // of query heads.
  bool gated = false;
};

// Norms of queries and keys, before the rotation (Henry et al., "Query-key normalization for
// transformers", 2020); both or neither.
struct QkNorms {
  std::unique_ptr<Norm> query;
  std::unique_ptr<Norm> key;
  // True: each norm is over all heads together, [heads * head_dim] or [kv_heads * head_dim]. False:
  // over each head, [head_dim].
  bool over_all_heads = false;
  // Multiplies queries after their norm.
  float query_scale = 1.0f;
};

// The first half of a block: x [batch, seq, dim] → [batch, seq, dim], where tokens read earlier
// ones.
class TokenMixer : public Module {
 public:
  using Module::Module;
  virtual absl::StatusOr<Value> Forward(Context& context, const Value& x) = 0;
  Role role() const override { return Role::kAttention; }
};

// Causal self-attention: x [batch, seq, dim] → [batch, seq, dim]. `qkv` makes queries, keys and
// values side by side, and `out` projects the heads back to dim. The model chooses their names and
// storage.
class Attention : public TokenMixer {
 public:
  Attention(std::string name, const AttentionOptions& options, std::unique_ptr<Linear> qkv,
            std::unique_ptr<Linear> out, QkNorms norms = {});

  absl::StatusOr<Value> Forward(Context& context, const Value& x) override;
  // The shape of this rank's heads, which are a part of all heads if the projections are divided.
  // Batch and seq are not set.
  AttentionShape shape() const;

 private:
  absl::StatusOr<Value> Compute(Context& context, const Value& x);
  // With gates, sets `gate` to them.
  absl::StatusOr<Value> NormQueriesAndKeys(Context& context, const Value& qkv, Value& gate);
  AttentionShape shape_;
  std::optional<RopeSpec> rope_;
  Linear* qkv_;
  Linear* out_;
  Parameter* sinks_ = nullptr;
  Norm* query_norm_ = nullptr;
  Norm* key_norm_ = nullptr;
  bool norms_are_over_all_heads_ = false;
  float query_scale_ = 1.0f;
  bool gated_;
};

// The shape of the first attention in the module tree; std::nullopt if there is none.
std::optional<AttentionShape> FindAttentionShape(const Module& model);

}  // namespace zeroth
