// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/norm.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/nn/ops/divided.h"

namespace zeroth {
namespace {

absl::Status Validate(const Value& x, const Value& residual, const Parameter& gamma) {
  const Shape& shape = x.data.shape();
  if (shape.rank() < 1 || gamma.shape() != Shape({shape.dim(-1)})) {
    return absl::InvalidArgumentError(
        absl::StrCat("norm with weight '", gamma.name(), "' ", gamma.shape().ToString(),
                     ": its input is ", shape.ToString(), ", expected [.., ", gamma.numel(), "]"));
  }
  if (residual.data.defined() && residual.data.shape() != shape) {
    return absl::InvalidArgumentError(absl::StrCat("norm with weight '", gamma.name(),
                                                   "': residual ", residual.data.shape().ToString(),
                                                   " added to ", shape.ToString()));
  }
  return absl::OkStatus();
}

// The gradient of a sum is the gradient of both summands. They share the tensor; whoever adds to it
// makes a copy first.
absl::Status PassToSummands(Context& context, GradientNode& sum, GradientNode* x,
                            GradientNode* residual) {
  if (!sum.grad.defined()) return absl::OkStatus();
  Tensor grad = std::exchange(sum.grad, Tensor());
  if (residual != nullptr) ZEROTH_RETURN_IF_ERROR(AddGradient(context, *residual, grad));
  if (x != nullptr) ZEROTH_RETURN_IF_ERROR(AddGradient(context, *x, std::move(grad)));
  return absl::OkStatus();
}

// Of the normalisation of `x`, whose gradient goes to `node`. `is_partial`: see NormOp.
absl::Status Backward(Context& context, const Tensor& dy, const Tensor& x, GradientNode& node,
                      Parameter& gamma, Parameter* beta, const Tensor& mean, const Tensor& rstd,
                      bool is_partial) {
  LayerNormBackwardArgs args;
  args.dy = dy;
  args.x = x;
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, FullValues(gamma));
  args.mean = mean;
  args.rstd = rstd;
  ZEROTH_ASSIGN_OR_RETURN(NodeSlot slot, TakeGradient(context, node, x));
  args.dx = std::move(slot.tensor);
  args.accumulate_dx = slot.accumulate;
  ZEROTH_ASSIGN_OR_RETURN(const GradientPlace dgamma,
                          TakeGradientPlace(context, gamma, is_partial));
  args.dgamma = dgamma.tensor;
  args.accumulate_dgamma = dgamma.accumulate;
  GradientPlace dbeta;
  if (beta != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(dbeta, TakeGradientPlace(context, *beta, is_partial));
    args.dbeta = dbeta.tensor;
    args.accumulate_dbeta = dbeta.accumulate;
  }
  const auto backward = beta != nullptr ? kernels::LayerNormBackward : kernels::RmsNormBackward;
  ZEROTH_RETURN_IF_ERROR(backward(context.kernels(), args));
  ZEROTH_RETURN_IF_ERROR(FinishGradient(context, gamma, dgamma));
  return beta != nullptr ? FinishGradient(context, *beta, dbeta) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<NormResult> NormOp(Context& context, const Value& x, const Value& residual,
                                  Parameter& gamma, Parameter* beta, float eps, bool of_part) {
  ZEROTH_RETURN_IF_ERROR(Validate(x, residual, gamma));
  const Shape& shape = x.data.shape();
  const bool summed = residual.data.defined();
  NormResult result;
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.Empty(shape, x.data.dtype()));
  result.normalized = context.MakeValue(std::move(y));
  const int64_t rows = shape.dim(-1) == 0 ? 0 : x.data.numel() / shape.dim(-1);
  LayerNormArgs args;
  args.x = x.data;
  args.residual = residual.data;
  args.eps = eps;
  args.y = result.normalized.data;
  ZEROTH_ASSIGN_OR_RETURN(args.rstd, context.Empty(Shape({rows}), DType::kFloat32));
  result.sum = x;
  if (summed) {
    ZEROTH_ASSIGN_OR_RETURN(args.sum, context.Empty(shape, x.data.dtype()));
    result.sum = context.MakeValue(args.sum);
  }
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, FullValues(gamma));
  if (beta != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(args.beta, FullValues(*beta));
    ZEROTH_ASSIGN_OR_RETURN(args.mean, context.Empty(Shape({rows}), DType::kFloat32));
  }
  const auto norm = beta != nullptr ? kernels::LayerNorm : kernels::RmsNorm;
  ZEROTH_RETURN_IF_ERROR(norm(context.kernels(), args));
  if (!context.recording()) return result;

  context.tape().Record([&context, &gamma, beta, input = result.sum.data, sum = result.sum.node,
                         x_node = x.node, residual_node = residual.node,
                         out = result.normalized.node, mean = args.mean, rstd = args.rstd, summed,
                         is_partial = of_part || context.rows_are_shared()]() -> absl::Status {
    if (out->grad.defined() && sum != nullptr) {
      ZEROTH_RETURN_IF_ERROR(
          Backward(context, out->grad, input, *sum, gamma, beta, mean, rstd, is_partial));
    }
    return summed ? PassToSummands(context, *sum, x_node.get(), residual_node.get())
                  : absl::OkStatus();
  });
  return result;
}

}  // namespace zeroth
