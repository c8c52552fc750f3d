// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/loss.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "zeroth/nn/objective.h"

namespace zeroth {

absl::Status ExpectHead(const Tensor& hidden, const Parameter& weight, const Tensor& targets) {
  const Shape& shape = hidden.shape();
  if (shape.rank() != 3 || weight.shape().rank() != 2 || shape.dim(2) != weight.shape().dim(1)) {
    return InvalidArgument("loss: hidden states ", shape.ToString(), " against head '",
                           weight.name(), "' ", weight.shape().ToString(),
                           ", expected [batch, seq, dim] and [vocab, dim]");
  }
  if (targets.dtype() != DType::kInt32 || targets.shape() != Shape({shape.dim(0), shape.dim(1)})) {
    return InvalidArgument("loss: targets are ", DTypeName(targets.dtype()), " ",
                           targets.shape().ToString(), ", expected int32 [", shape.dim(0), ", ",
                           shape.dim(1), "]");
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> LinearCrossEntropyOp(Context& context, const Value& hidden, Parameter& weight,
                                           const Tensor& targets, float logit_cap) {
  ZEROTH_RETURN_IF_ERROR(ExpectHead(hidden.data, weight, targets));
  const Shape& shape = hidden.data.shape();
  const int64_t rows = shape.dim(0) * shape.dim(1);
  LinearCrossEntropyArgs args;
  args.hidden = hidden.data.Reshape(Shape({rows, shape.dim(2)}));
  ZEROTH_ASSIGN_OR_RETURN(args.weight, FullValues(weight));
  args.targets = targets.Reshape(Shape({rows}));
  ZEROTH_ASSIGN_OR_RETURN(args.loss, context.Empty(Shape({1}), DType::kFloat32));
  args.logit_cap = logit_cap;
  Tensor loss_of_objective;
  if (TokenObjective* const objective = context.objective(); objective != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(args.row_losses, context.Empty(Shape({rows}), DType::kFloat32));
    ZEROTH_RETURN_IF_ERROR_WITH(kernels::LinearCrossEntropy(context.kernels(), args), "loss");
    ZEROTH_ASSIGN_OR_RETURN(
        TokenObjective::Result result,
        objective->Apply(context, std::exchange(args.row_losses, Tensor()).Reshape(targets.shape()),
                         targets));
    if (!context.recording()) return context.MakeEnd(std::move(result.loss));
    loss_of_objective = std::move(result.loss);
    args.row_weights = result.weights.Reshape(Shape({rows}));
  } else {
    args.divisor = context.token_divisor();
  }
  args.grad_scale = context.loss_scale();
  if (context.recording()) {
    ZEROTH_ASSIGN_OR_RETURN(args.dhidden, context.EmptyLike(args.hidden));
    if (weight.requires_grad()) {
      ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, weight.TakeGradient());
      args.dweight = slot.tensor;
      args.accumulate_dweight = slot.accumulate;
    }
  }
  ZEROTH_RETURN_IF_ERROR_WITH(kernels::LinearCrossEntropy(context.kernels(), args), "loss");
  Value loss = context.MakeEnd(loss_of_objective.defined() ? loss_of_objective : args.loss);
  if (context.recording() && hidden.node != nullptr) {
    context.tape().Record(
        [&context, node = hidden.node, dhidden = args.dhidden.Reshape(shape)]() mutable {
          return AddGradient(context, *node, std::move(dhidden));
        });
  }
  return loss;
}

}  // namespace zeroth
