// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/gated_delta_net.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/ops/basic.h"
#include "zeroth/nn/ops/delta_net.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {

GatedDeltaNet::GatedDeltaNet(std::string name, const GatedDeltaNetOptions& options,
                             std::unique_ptr<Linear> qkv, std::unique_ptr<Linear> z,
                             std::unique_ptr<Linear> gates, std::unique_ptr<Linear> out)
    : TokenMixer(std::move(name)), shape_(options.shape) {
  qkv_ = AddChild(std::move(qkv));
  for (const LinearPart& part : qkv_->parts()) {
    MatrixStructure matrix = part.weight->matrix();
    const int64_t keys = shape_.key_heads * shape_.key_dim;
    matrix.parts = {keys, keys, shape_.value_heads * shape_.value_dim};
    part.weight->set_matrix(std::move(matrix));
  }
  z_ = AddChild(std::move(z));
  gates_ = AddChild(std::move(gates));
  convolution_ = AddParameter("conv1d.weight", Shape({shape_.packed_dim(), 1, options.taps}),
                              Initializer::Normal(options.init_std));
  dt_bias_ = AddParameter("dt_bias", Shape({shape_.value_heads}), Initializer::Ones());
  // e^A_log is uniform, as in Mamba 2.
  log_decay_ =
      AddParameter("A_log", Shape({shape_.value_heads}), Initializer::LogOfUniform(0.01f, 16.0f));
  norm_ = AddChild(
      std::make_unique<Norm>(Scoped("norm"), NormKind::kRms, shape_.value_dim, options.norm_eps));
  out_ = AddChild(std::move(out));
}

absl::StatusOr<Value> GatedDeltaNet::Forward(Context& context, const Value& x) {
  return HookedOne(context, x, [this](Context& c, const Value& in) { return Compute(c, in); });
}

DeltaNetShape GatedDeltaNet::shape() const {
  DeltaNetShape shape = shape_;
  const Parameter& weight = *qkv_->parts()[0].weight;
  if (!IsDivided(weight)) return shape;
  shape.key_heads /= weight.part()->count;
  shape.value_heads /= weight.part()->count;
  return shape;
}

absl::StatusOr<Value> GatedDeltaNet::Compute(Context& context, const Value& x) {
  const DeltaNetShape here = shape();
  const bool of_heads = IsDivided(*qkv_->parts()[0].weight);
  ZEROTH_ASSIGN_OR_RETURN(Value qkv, qkv_->Forward(context, x));
  ZEROTH_ASSIGN_OR_RETURN(Value z, z_->Forward(context, x));
  ZEROTH_ASSIGN_OR_RETURN(const Value gates, gates_->Forward(context, x));
  ZEROTH_ASSIGN_OR_RETURN(qkv, ShortConvolutionOp(context, qkv, *convolution_));
  ZEROTH_ASSIGN_OR_RETURN(Value heads,
                          GatedDeltaRuleOp(context, qkv, gates, *log_decay_, *dt_bias_, here));
  const Shape wide = heads.data.shape();
  const Shape apart({wide.dim(0), wide.dim(1), here.value_heads, here.value_dim});
  ZEROTH_ASSIGN_OR_RETURN(heads, ReshapeOp(context, heads, apart));
  ZEROTH_ASSIGN_OR_RETURN(heads, norm_->Forward(context, heads, of_heads));
  ZEROTH_ASSIGN_OR_RETURN(heads, ReshapeOp(context, heads, wide));
  ZEROTH_ASSIGN_OR_RETURN(z, ActivationOp(context, z, ActivationFunction::kSilu));
  ZEROTH_ASSIGN_OR_RETURN(heads, MultiplyOp(context, heads, z));
  const auto makes_result = MakesResult(context, *out_);
  return out_->Forward(context, heads);
}

}  // namespace zeroth
