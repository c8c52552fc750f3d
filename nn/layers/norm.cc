// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/norm.h"

#include <utility>

namespace zeroth {

LayerNorm::LayerNorm(std::string name, int64_t dim, double eps)
    : Module(std::move(name)), eps_(static_cast<float>(eps)) {
  weight_ = AddParameter("weight", Shape({dim}), Initializer::Ones());
  bias_ = AddParameter("bias", Shape({dim}), Initializer::Zeros());
}

absl::StatusOr<Value> LayerNorm::Forward(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(NormResult result, ForwardResidual(context, x, Value()));
  return std::move(result.normalized);
}

absl::StatusOr<NormResult> LayerNorm::ForwardResidual(Context& context, const Value& x,
                                                      const Value& residual) {
  return Hooked(context, [&] { return LayerNormOp(context, x, residual, *weight_, *bias_, eps_); });
}

RMSNorm::RMSNorm(std::string name, int64_t dim, double eps)
    : Module(std::move(name)), eps_(static_cast<float>(eps)) {
  weight_ = AddParameter("weight", Shape({dim}), Initializer::Ones());
}

absl::StatusOr<Value> RMSNorm::Forward(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(NormResult result, ForwardResidual(context, x, Value()));
  return std::move(result.normalized);
}

absl::StatusOr<NormResult> RMSNorm::ForwardResidual(Context& context, const Value& x,
                                                    const Value& residual) {
  return Hooked(context, [&] { return RmsNormOp(context, x, residual, *weight_, eps_); });
}

}  // namespace zeroth
