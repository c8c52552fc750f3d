// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/attention.h"

#include <utility>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/nn/ops/basic.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {

Attention::Attention(std::string name, const AttentionOptions& options, std::unique_ptr<Linear> qkv,
                     std::unique_ptr<Linear> out, QkNorms norms)
    : TokenMixer(std::move(name)), rope_(options.rope), gated_(options.gated) {
  shape_.heads = options.heads;
  shape_.kv_heads = options.kv_heads;
  shape_.head_dim = options.head_dim;
  shape_.window = options.window;
  shape_.scale = options.scale;
  shape_.cap = options.cap;
  qkv_ = AddChild(std::move(qkv));
  // Fused qkv, or one of q, k and v.
  const int64_t kv_width = options.kv_heads * options.head_dim;
  for (const LinearPart& part : qkv_->parts()) {
    MatrixStructure matrix = part.weight->matrix();
    if (qkv_->parts().size() == 1) {
      const int64_t of_query = options.gated ? 2 : 1;  // a gate for each element
      matrix.parts = {of_query * options.heads * options.head_dim, kv_width, kv_width};
    }
    matrix.head_dim = options.head_dim;
    part.weight->set_matrix(std::move(matrix));
  }
  out_ = AddChild(std::move(out));
  if (options.sinks.has_value()) {
    sinks_ = AddParameter("sinks", Shape({options.heads}), *options.sinks);
  }
  ZEROTH_CHECK(!gated_ || norms.query != nullptr);
  if (norms.query == nullptr) return;
  query_norm_ = AddChild(std::move(norms.query));
  key_norm_ = AddChild(std::move(norms.key));
  norms_are_over_all_heads_ = norms.over_all_heads;
  query_scale_ = norms.query_scale;
}

absl::StatusOr<Value> Attention::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
}

absl::StatusOr<Value> Attention::Compute(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(Value qkv, qkv_->Forward(context, x));
  Value gate;
  if (query_norm_ != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(qkv, NormQueriesAndKeys(context, qkv, gate));
  }
  ZEROTH_ASSIGN_OR_RETURN(Value heads,
                          context.cache() == nullptr
                              ? AttentionOp(context, qkv, shape(), rope_, sinks_)
                              : CachedAttentionOp(context, qkv, shape(), rope_, this, sinks_));
  if (gated_) {
    ZEROTH_ASSIGN_OR_RETURN(gate, ActivationOp(context, gate, ActivationFunction::kSigmoid));
    ZEROTH_ASSIGN_OR_RETURN(heads, MultiplyOp(context, heads, gate));
  }
  const auto makes_result = MakesResult(context, *out_);
  return out_->Forward(context, heads);
}

AttentionShape Attention::shape() const {
  AttentionShape shape = shape_;
  const Parameter& weight = *qkv_->parts()[0].weight;
  if (!IsDivided(weight)) return shape;
  shape.heads /= weight.part()->count;
  shape.kv_heads /= weight.part()->count;
  return shape;
}

absl::StatusOr<Value> Attention::NormQueriesAndKeys(Context& context, const Value& qkv,
                                                    Value& gate) {
  const AttentionShape here = shape();
  const bool of_heads = IsDivided(*qkv_->parts()[0].weight);
  std::vector<Value> parts;
  int64_t column = 0;
  for (const auto& [norm, heads] :
       {std::pair(query_norm_, here.heads), std::pair(key_norm_, here.kv_heads)}) {
    const bool has_gates = gated_ && column == 0;
    const int64_t width = (has_gates ? 2 : 1) * heads * here.head_dim;
    ZEROTH_ASSIGN_OR_RETURN(Value part, SliceOp(context, qkv, -1, column, width));
    column += width;
    if (has_gates) {
      const Shape narrow({part.data.dim(0), part.data.dim(1), heads * here.head_dim});
      const Shape pairs({narrow.dim(0), narrow.dim(1), heads, 2 * here.head_dim});
      ZEROTH_ASSIGN_OR_RETURN(const Value both, ReshapeOp(context, part, pairs));
      ZEROTH_ASSIGN_OR_RETURN(part, SliceOp(context, both, -1, 0, here.head_dim));
      ZEROTH_ASSIGN_OR_RETURN(part, ReshapeOp(context, part, narrow));
      ZEROTH_ASSIGN_OR_RETURN(gate, SliceOp(context, both, -1, here.head_dim, here.head_dim));
      ZEROTH_ASSIGN_OR_RETURN(gate, ReshapeOp(context, gate, narrow));
    }
    if (norms_are_over_all_heads_) {
      ZEROTH_ASSIGN_OR_RETURN(parts.emplace_back(), norm->Forward(context, part));
      continue;
    }
    const Shape rows({part.data.dim(0), part.data.dim(1), heads, here.head_dim});
    ZEROTH_ASSIGN_OR_RETURN(const Value each, ReshapeOp(context, part, rows));
    ZEROTH_ASSIGN_OR_RETURN(const Value normed, norm->Forward(context, each, of_heads));
    ZEROTH_ASSIGN_OR_RETURN(parts.emplace_back(), ReshapeOp(context, normed, part.data.shape()));
  }
  if (query_scale_ != 1.0f) {
    ZEROTH_ASSIGN_OR_RETURN(parts[0], ScaleOp(context, parts[0], query_scale_));
  }
  ZEROTH_ASSIGN_OR_RETURN(parts.emplace_back(),
                          SliceOp(context, qkv, -1, column, here.kv_heads * here.head_dim));
  return ConcatOp(context, parts, -1);
}

std::optional<AttentionShape> FindAttentionShape(const Module& model) {
  const std::vector<const Attention*> all = ModulesOf<const Attention>(model);
  return all.empty() ? std::nullopt : std::optional(all.front()->shape());
}

}  // namespace zeroth
