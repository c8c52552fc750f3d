// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/attention.h"

#include <utility>

#include "zeroth/nn/layers/attention.h"

namespace zeroth {

Attention::Attention(std::string name, const AttentionOptions& options, std::unique_ptr<Linear> qkv,
                     std::unique_ptr<Linear> out)
    : Module(std::move(name)), rope_theta_(options.rope_theta) {
  shape_.heads = options.heads;
  shape_.kv_heads = options.kv_heads;
  shape_.head_dim = options.head_dim;
  qkv_ = AddChild(std::move(qkv));
  out_ = AddChild(std::move(out));
}

absl::StatusOr<Value> Attention::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
}

absl::StatusOr<Value> Attention::Compute(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(const Value qkv, qkv_->Forward(context, x));
  ZEROTH_ASSIGN_OR_RETURN(const Value heads, AttentionOp(context, qkv, shape_, rope_theta_));
  return out_->Forward(context, heads);
}

std::optional<AttentionShape> FindAttentionShape(const Module& model) {
  for (const Module* child : model.children()) {
    if (const auto* attention = dynamic_cast<const Attention*>(child)) return attention->shape();
    if (const auto shape = FindAttentionShape(*child)) return shape;
  }
  return std::nullopt;
}

}  // namespace zeroth
