// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/norm.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

Norm::Norm(std::string name, NormKind kind, int64_t dim, double eps)
    : Module(std::move(name)),
      eps_(static_cast<float>(eps)),
      offset_(kind == NormKind::kRmsPlusOne ? 1.0f : 0.0f) {
  weight_ = AddParameter("weight", Shape({dim}),
                         offset_ == 0.0f ? Initializer::Ones() : Initializer::Zeros());
  if (kind == NormKind::kLayer) {
    bias_ = AddParameter("bias", Shape({dim}), Initializer::Zeros());
  }
}

absl::StatusOr<Value> Norm::Forward(Context& context, const Value& x, bool of_heads) {
  ZEROTH_ASSIGN_OR_RETURN(NormResult result, ForwardResidual(context, x, Value(), of_heads));
  return std::move(result.normalized);
}

absl::StatusOr<NormResult> Norm::ForwardResidual(Context& context, const Value& x,
                                                 const Value& residual, bool of_heads) {
  return Hooked(context, [&]() -> absl::StatusOr<NormResult> {
    ZEROTH_ASSIGN_OR_RETURN(const Value in, CastInput(context, x));
    ZEROTH_ASSIGN_OR_RETURN(const Value added, CastInput(context, residual));
    ZEROTH_ASSIGN_OR_RETURN(NormResult result,
                            NormOp(context, in, added, *weight_, bias_, eps_, of_heads, offset_));
    ZEROTH_ASSIGN_OR_RETURN(result.sum, CastOutput(context, result.sum));
    ZEROTH_ASSIGN_OR_RETURN(result.normalized, CastOutput(context, result.normalized));
    return result;
  });
}

}  // namespace zeroth
