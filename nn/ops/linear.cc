// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/linear.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth {
namespace {

absl::Status BackwardPart(Context& context, const LinearPart& part, WeightLayout layout,
                          const Matrix& x, const Matrix& dy) {
  if (part.weight->requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, part.weight->TakeGradient());
    GemmArgs gemm;
    gemm.a = layout == WeightLayout::kInOut ? x : dy;
    gemm.b = layout == WeightLayout::kInOut ? dy : x;
    gemm.transpose_a = true;
    gemm.c = slot.tensor;
    gemm.accumulate = slot.accumulate;
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context.kernels(), gemm));
  }
  if (part.bias != nullptr && part.bias->requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, part.bias->TakeGradient());
    ZEROTH_RETURN_IF_ERROR(
        kernels::BiasGradient(context.kernels(), dy, slot.tensor, slot.accumulate));
  }
  return absl::OkStatus();
}

absl::Status Backward(Context& context, const std::vector<LinearPart>& parts, WeightLayout layout,
                      const Tensor& x, GradientNode* x_node, const Tensor& dy) {
  int64_t column = 0;
  for (const LinearPart& part : parts) {
    const int64_t out = OutFeatures(part, layout);
    const Matrix dy_part = Matrix(dy).Columns(column, out);
    column += out;
    ZEROTH_RETURN_IF_ERROR(BackwardPart(context, part, layout, x, dy_part));
    if (x_node == nullptr) continue;
    ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *x_node, x));
    GemmArgs gemm;
    gemm.a = dy_part;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, FullValues(*part.weight));
    gemm.b = weight;
    gemm.transpose_b = layout == WeightLayout::kInOut;
    gemm.c = slot.tensor;
    gemm.accumulate = slot.accumulate;
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context.kernels(), gemm));
  }
  return absl::OkStatus();
}

// Turns the gradient of a GELU's output into that of its input, in place unless somebody else reads
// it.
absl::Status GeluBackward(Context& context, GradientNode& node, const Tensor& gelu_input) {
  Tensor dx = node.grad;
  if (dx.buffer().use_count() > 2) {  // this function and the node hold a handle each
    ZEROTH_ASSIGN_OR_RETURN(dx, context.Empty(gelu_input.shape(), gelu_input.dtype()));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::GeluBackward(context.kernels(), gelu_input, node.grad, dx));
  node.grad = std::move(dx);
  return absl::OkStatus();
}

}  // namespace

int64_t InFeatures(const LinearPart& part, WeightLayout layout) {
  return part.weight->shape().dim(layout == WeightLayout::kInOut ? 0 : 1);
}

int64_t OutFeatures(const LinearPart& part, WeightLayout layout) {
  return part.weight->shape().dim(layout == WeightLayout::kInOut ? 1 : 0);
}

absl::Status ValidateLinearInput(const Tensor& x, absl::Span<const LinearPart> parts,
                                 WeightLayout layout) {
  for (const LinearPart& part : parts) {
    const Shape& shape = part.weight->shape();
    const int64_t in = shape.rank() == 2 ? InFeatures(part, layout) : -1;
    if (x.shape().rank() < 1 || x.dim(-1) != in) {
      return absl::InvalidArgumentError(
          absl::StrCat("linear layer with weight '", part.weight->name(), "' ", shape.ToString(),
                       ": its input is ", x.shape().ToString(), ", expected [.., ", in, "]"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> LinearOp(Context& context, const Value& x, absl::Span<const LinearPart> parts,
                               WeightLayout layout, Activation activation) {
  ZEROTH_RETURN_IF_ERROR(ValidateLinearInput(x.data, parts, layout));
  if (activation == Activation::kSilu && context.recording()) {
    return absl::FailedPreconditionError(
        "linear layer: a fused SiLU keeps nothing for backward; use it with recording off");
  }
  int64_t out = 0;
  for (const LinearPart& part : parts) out += OutFeatures(part, layout);
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.Empty(x.data.shape().WithLast(out), x.data.dtype()));
  const bool keeps_input = activation == Activation::kGelu && context.recording();
  if (keeps_input && parts.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("linear layer: a fused GELU is for one projection, not ", parts.size()));
  }
  Tensor gelu_input;
  if (keeps_input) {
    ZEROTH_ASSIGN_OR_RETURN(gelu_input, context.Empty(y.shape(), y.dtype()));
  }
  int64_t column = 0;
  for (const LinearPart& part : parts) {
    GemmArgs gemm;
    gemm.a = x.data;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, FullValues(*part.weight));
    gemm.b = weight;
    gemm.transpose_b = layout == WeightLayout::kOutIn;
    gemm.c = Matrix(y).Columns(column, OutFeatures(part, layout));
    if (part.bias != nullptr) {
      ZEROTH_ASSIGN_OR_RETURN(gemm.bias, FullValues(*part.bias));
    }
    gemm.activation = activation;
    gemm.pre_activation = gelu_input;
    ZEROTH_RETURN_IF_ERROR_WITH(kernels::Gemm(context.kernels(), gemm), part.weight->name());
    column += OutFeatures(part, layout);
  }
  Value result = context.MakeValue(std::move(y));
  if (context.recording()) {
    context.tape().Record([&context, parts = std::vector<LinearPart>(parts.begin(), parts.end()),
                           layout, x_data = x.data, x_node = x.node, y_node = result.node,
                           gelu_input]() -> absl::Status {
      if (!y_node->grad.defined()) return absl::OkStatus();  // nothing downstream used the result
      if (gelu_input.defined()) {
        ZEROTH_RETURN_IF_ERROR(GeluBackward(context, *y_node, gelu_input));
      }
      return Backward(context, parts, layout, x_data, x_node.get(), y_node->grad);
    });
  }
  return result;
}

}  // namespace zeroth
