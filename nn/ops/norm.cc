// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/norm.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/norm/norm.h"

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

// Sets slot and flag of a parameter's gradient, or leaves them for a frozen one.
absl::Status TakeIfTrainable(Parameter& parameter, Tensor* grad, bool* accumulate) {
  if (!parameter.requires_grad()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, parameter.TakeGradient());
  *grad = slot.tensor;
  *accumulate = slot.accumulate;
  return absl::OkStatus();
}

struct Prepared {
  NormResult result;
  Tensor rstd;
};

absl::StatusOr<Prepared> Prepare(Context& context, const Value& x, const Value& residual) {
  Prepared prepared;
  const Shape& shape = x.data.shape();
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.Empty(shape, x.data.dtype()));
  prepared.result.normalized = context.MakeValue(std::move(y));
  const int64_t rows = shape.dim(-1) == 0 ? 0 : x.data.numel() / shape.dim(-1);
  ZEROTH_ASSIGN_OR_RETURN(prepared.rstd, context.Empty(Shape({rows}), DType::kFloat32));
  if (residual.data.defined()) {
    ZEROTH_ASSIGN_OR_RETURN(Tensor sum, context.Empty(shape, x.data.dtype()));
    prepared.result.sum = context.MakeValue(std::move(sum));
  } else {
    prepared.result.sum = x;
  }
  return prepared;
}

}  // namespace

absl::StatusOr<NormResult> LayerNormOp(Context& context, const Value& x, const Value& residual,
                                       Parameter& gamma, Parameter& beta, float eps) {
  ZEROTH_RETURN_IF_ERROR(Validate(x, residual, gamma));
  ZEROTH_ASSIGN_OR_RETURN(Prepared prepared, Prepare(context, x, residual));
  const NormResult& result = prepared.result;
  LayerNormArgs args;
  args.x = x.data;
  args.residual = residual.data;
  if (residual.data.defined()) args.sum = result.sum.data;
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, FullValues(gamma));
  ZEROTH_ASSIGN_OR_RETURN(args.beta, FullValues(beta));
  args.eps = eps;
  args.y = result.normalized.data;
  ZEROTH_ASSIGN_OR_RETURN(args.mean, context.Empty(prepared.rstd.shape(), DType::kFloat32));
  args.rstd = prepared.rstd;
  ZEROTH_RETURN_IF_ERROR(kernels::LayerNorm(context.kernels(), args));
  if (!context.recording()) return result;

  const bool summed = residual.data.defined();
  context.tape().Record([&context, &gamma, &beta, input = result.sum.data, sum = result.sum.node,
                         x_node = x.node, residual_node = residual.node,
                         out = result.normalized.node, mean = args.mean, rstd = args.rstd,
                         summed]() -> absl::Status {
    if (out->grad.defined() && sum != nullptr) {
      LayerNormBackwardArgs backward;
      backward.dy = out->grad;
      backward.x = input;
      ZEROTH_ASSIGN_OR_RETURN(backward.gamma, FullValues(gamma));
      backward.mean = mean;
      backward.rstd = rstd;
      ZEROTH_ASSIGN_OR_RETURN(NodeSlot slot, TakeGradient(context, *sum, input));
      backward.dx = std::move(slot.tensor);
      backward.accumulate_dx = slot.accumulate;
      ZEROTH_RETURN_IF_ERROR(TakeIfTrainable(gamma, &backward.dgamma, &backward.accumulate_dgamma));
      ZEROTH_RETURN_IF_ERROR(TakeIfTrainable(beta, &backward.dbeta, &backward.accumulate_dbeta));
      ZEROTH_RETURN_IF_ERROR(kernels::LayerNormBackward(context.kernels(), backward));
    }
    return summed ? PassToSummands(context, *sum, x_node.get(), residual_node.get())
                  : absl::OkStatus();
  });
  return result;
}

absl::StatusOr<NormResult> RmsNormOp(Context& context, const Value& x, const Value& residual,
                                     Parameter& gamma, float eps) {
  ZEROTH_RETURN_IF_ERROR(Validate(x, residual, gamma));
  ZEROTH_ASSIGN_OR_RETURN(Prepared prepared, Prepare(context, x, residual));
  const NormResult& result = prepared.result;
  RmsNormArgs args;
  args.x = x.data;
  args.residual = residual.data;
  if (residual.data.defined()) args.sum = result.sum.data;
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, FullValues(gamma));
  args.eps = eps;
  args.y = result.normalized.data;
  args.rstd = prepared.rstd;
  ZEROTH_RETURN_IF_ERROR(kernels::RmsNorm(context.kernels(), args));
  if (!context.recording()) return result;

  const bool summed = residual.data.defined();
  context.tape().Record([&context, &gamma, input = result.sum.data, sum = result.sum.node,
                         x_node = x.node, residual_node = residual.node,
                         out = result.normalized.node, rstd = args.rstd, summed]() -> absl::Status {
    if (out->grad.defined() && sum != nullptr) {
      RmsNormBackwardArgs backward;
      backward.dy = out->grad;
      backward.x = input;
      ZEROTH_ASSIGN_OR_RETURN(backward.gamma, FullValues(gamma));
      backward.rstd = rstd;
      ZEROTH_ASSIGN_OR_RETURN(NodeSlot slot, TakeGradient(context, *sum, input));
      backward.dx = std::move(slot.tensor);
      backward.accumulate_dx = slot.accumulate;
      ZEROTH_RETURN_IF_ERROR(TakeIfTrainable(gamma, &backward.dgamma, &backward.accumulate_dgamma));
      ZEROTH_RETURN_IF_ERROR(kernels::RmsNormBackward(context.kernels(), backward));
    }
    return summed ? PassToSummands(context, *sum, x_node.get(), residual_node.get())
                  : absl::OkStatus();
  });
  return result;
}

}  // namespace zeroth
