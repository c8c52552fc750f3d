// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/score.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/objective.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/loss.h"

namespace zeroth {

absl::StatusOr<Value> ScoreLossOp(Context& context, const Value& hidden, Parameter& weight,
                                  const Tensor& targets) {
  TokenObjective* const objective = context.objective();
  if (objective == nullptr) {
    return absl::FailedPreconditionError(
        "loss: the model's head scores texts and predicts no tokens; expected an objective of "
        "scores, as --objective=reward");
  }
  // Every tensor rank has the whole head, and computes the same.
  ZEROTH_ASSIGN_OR_RETURN(const Value all, AllRowsOp(context, hidden, weight.name()));
  ZEROTH_RETURN_IF_ERROR(ExpectHead(all.data, weight, targets));
  const Shape& shape = all.data.shape();
  if (weight.shape().dim(0) != 1) {
    return InvalidArgument("loss: head '", weight.name(), "' is ", weight.shape().ToString(),
                           ", expected [1, dim], which scores texts");
  }
  const int64_t rows = shape.dim(0) * shape.dim(1);
  const Tensor states = all.data.Reshape(Shape({rows, shape.dim(2)}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(weight));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor losses, context.Empty(Shape({rows, 1}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR_WITH(
      kernels::Gemm(context.kernels(),
                    {.a = states, .b = values, .c = losses, .transpose_b = true}),
      weight.name());
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(
      context.kernels(), {.op = BasicOp::kScale, .a = losses, .out = losses, .scalar = -1}));
  ZEROTH_ASSIGN_OR_RETURN(TokenObjective::Result result,
                          objective->Apply(context, losses.Reshape(targets.shape()), targets));
  Value loss = context.MakeEnd(std::move(result.loss));
  if (!context.recording()) return loss;
  // The gradient of loss_scale * loss by the scores.
  Tensor slopes = result.weights.Reshape(Shape({rows, 1}));
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(
      context.kernels(),
      {.op = BasicOp::kScale, .a = slopes, .out = slopes, .scalar = -context.loss_scale()}));
  if (slopes.dtype() != states.dtype()) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor rounded, context.Empty(slopes.shape(), states.dtype()));
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(context.kernels(), slopes, rounded));
    slopes = rounded;
  }
  if (weight.requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, weight.TakeGradient());
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context.kernels(), {.a = slopes,
                                                             .b = states,
                                                             .c = slot.tensor,
                                                             .transpose_a = true,
                                                             .accumulate = slot.accumulate}));
  }
  if (all.node == nullptr) return loss;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dstates, context.EmptyLike(states));
  ZEROTH_RETURN_IF_ERROR(
      kernels::Gemm(context.kernels(), {.a = slopes, .b = values, .c = dstates}));
  context.tape().Record([&context, node = all.node, dhidden = dstates.Reshape(shape)]() mutable {
    return AddGradient(context, *node, std::move(dhidden));
  });
  return loss;
}

}  // namespace zeroth
