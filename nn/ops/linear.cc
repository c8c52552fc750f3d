// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/linear.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/packed/packed.h"
#include "zeroth/nn/kept_outputs.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/divided_linear.h"

namespace zeroth {
namespace {

// y = activation(x w + b).
absl::Status ForwardPart(Context& context, const LinearPart& part, WeightLayout layout,
                         const Tensor& x, Activation activation, const Tensor& gelu_input,
                         const Matrix& y) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, WeightValues(context, part, x.dtype()));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor bias,
                          part.bias == nullptr ? Tensor() : FullValues(*part.bias));
  for (const WeightBlock& block : BlocksOf(context, part, layout)) {
    ZEROTH_RETURN_IF_ERROR_WITH(
        kernels::Gemm(context.kernels(),
                      {.a = x,
                       .b = BlockOf(weight, layout, block),
                       .c = y.Columns(block.out, block.outs),
                       .transpose_b = layout == WeightLayout::kOutIn,
                       .bias = bias.defined() ? bias.View(block.out, Shape({block.outs})) : bias,
                       .activation = activation,
                       .pre_activation = gelu_input}),
        part.weight->name());
  }
  return absl::OkStatus();
}

absl::Status BackwardPart(Context& context, const LinearPart& part, WeightLayout layout,
                          const Matrix& x, const Matrix& dy) {
  if (part.weight->requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, part.weight->TakeGradient());
    ZEROTH_RETURN_IF_ERROR(
        WeightGradient(context, part, layout, x, dy, slot.tensor, slot.accumulate));
  }
  if (part.bias != nullptr && part.bias->requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, part.bias->TakeGradient());
    ZEROTH_RETURN_IF_ERROR(
        kernels::BiasGradient(context.kernels(), dy, slot.tensor, slot.accumulate));
  }
  return absl::OkStatus();
}

// True if the matmul that makes the gradient may also multiply it by the GELU's derivative, which
// saves reading and writing it once. Such a matmul cannot add to an earlier gradient.
bool GoesThroughGelu(const GradientNode& node) {
  return node.gelu_input.defined() && !node.grad.defined() && !node.grad_of_gelu_input.defined();
}

// Turns the gradient of a fused GELU's output into that of its input, in place unless another node
// holds it.
absl::Status FusedGeluBackward(Context& context, GradientNode& node) {
  const Tensor through = std::exchange(node.grad_of_gelu_input, Tensor());
  if (!node.grad.defined()) {
    node.grad = through;
    return absl::OkStatus();
  }
  Tensor dx = node.grad;
  if (dx.buffer().use_count() > 2) {  // this function and the node hold a handle each
    ZEROTH_ASSIGN_OR_RETURN(dx, context.EmptyLike(node.gelu_input));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::GeluBackward(context.kernels(), node.gelu_input, node.grad, dx));
  if (through.defined()) ZEROTH_RETURN_IF_ERROR(kernels::Add(context.kernels(), dx, through, dx));
  node.grad = std::move(dx);
  return absl::OkStatus();
}

absl::Status UnpackOneFormat(Context& context, absl::Span<const PackedWeight* const> packed,
                             absl::Span<const Tensor> values, const Tensor& offsets) {
  const PackedWeight& first = *packed.front();
  UnpackArgs args;
  args.shape = first.shape;
  args.offsets = offsets;
  for (size_t i = 0; i < packed.size(); ++i) {
    UnpackArgs::Block& block = args.blocks.emplace_back();
    ZEROTH_ASSIGN_OR_RETURN(block.codes, FullValues(*packed[i]->codes));
    if (packed[i]->scales != nullptr) {
      ZEROTH_ASSIGN_OR_RETURN(block.scales, FullValues(*packed[i]->scales));
    }
    block.values = values[i];
  }
  const std::optional<ParameterPart>& division = first.weight->part();
  if (!division.has_value() || division->dim == 1) {
    if (division.has_value()) {
      args.col = BeginOfShare(args.shape.cols, division->index, division->count);
    }
    return Annotate(kernels::Unpack(context.kernels(), args), first.weight->name());
  }
  // This rank's shares of the sections are not contiguous in the undivided weight.
  const std::vector<UnpackArgs::Block> all = args.blocks;
  const int64_t rows = first.weight->shape().dim(0);
  for (const ElementRun& run : RunsOfPart(Shape({args.shape.rows}), *division, 0, rows)) {
    args.row = run.global_begin;
    const auto rows_of_run = [&run](const Tensor& of) {
      return of.View(run.begin * of.dim(1), Shape({run.numel, of.dim(1)}));
    };
    for (size_t i = 0; i < all.size(); ++i) {
      args.blocks[i].codes = rows_of_run(all[i].codes);
      args.blocks[i].values = rows_of_run(all[i].values);
    }
    ZEROTH_RETURN_IF_ERROR_WITH(kernels::Unpack(context.kernels(), args), first.weight->name());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> WeightValues(Context& context, const LinearPart& part, DType dtype) {
  if (part.packed == nullptr) return FullValues(*part.weight);
  ZEROTH_ASSIGN_OR_RETURN(Tensor values, context.Empty(part.weight->shape(), dtype));
  ZEROTH_RETURN_IF_ERROR(UnpackWeights(context, {part.packed}, {values}));
  return values;
}

absl::Status UnpackWeights(Context& context, absl::Span<const PackedWeight* const> packed,
                           absl::Span<const Tensor> values, const Tensor& offsets) {
  for (size_t first = 0, end = 0; first < packed.size(); first = end) {
    const PackedFormat format = packed[first]->shape.format;
    while (end < packed.size() && packed[end]->shape.format == format) ++end;
    Tensor of_format = offsets;
    if (offsets.defined()) {
      of_format =
          offsets.View(static_cast<int64_t>(first), Shape({static_cast<int64_t>(end - first) + 1}));
    }
    ZEROTH_RETURN_IF_ERROR(UnpackOneFormat(context, packed.subspan(first, end - first),
                                           values.subspan(first, end - first), of_format));
  }
  return absl::OkStatus();
}

absl::Status LinearBackward(Context& context, absl::Span<const LinearPart> parts,
                            WeightLayout layout, const Tensor& x, GradientNode* x_node,
                            const Tensor& dy) {
  int64_t column = 0;
  for (const LinearPart& part : parts) {
    const int64_t out = OutFeatures(part, layout);
    const Matrix dy_part = Matrix(dy).Columns(column, out);
    column += out;
    ZEROTH_RETURN_IF_ERROR(BackwardPart(context, part, layout, x, dy_part));
    if (x_node == nullptr) continue;
    if (parts.size() == 1 && GoesThroughGelu(*x_node)) {
      ZEROTH_ASSIGN_OR_RETURN(x_node->grad_of_gelu_input, context.EmptyLike(x));
      ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, WeightValues(context, part, dy.dtype()));
      ZEROTH_RETURN_IF_ERROR(
          kernels::Gemm(context.kernels(), {.a = dy_part,
                                            .b = weight,
                                            .c = x_node->grad_of_gelu_input,
                                            .transpose_b = layout == WeightLayout::kInOut,
                                            .gelu_input = x_node->gelu_input}));
      continue;
    }
    ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *x_node, x));
    ZEROTH_RETURN_IF_ERROR(
        InputGradient(context, part, layout, dy_part, slot.tensor, slot.accumulate));
  }
  return absl::OkStatus();
}

absl::Status InputGradient(Context& context, const LinearPart& part, WeightLayout layout,
                           const Matrix& dy, const Matrix& dx, bool accumulate) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, WeightValues(context, part, dy.tensor.dtype()));
  for (const WeightBlock& block : BlocksOf(context, part, layout)) {
    ZEROTH_RETURN_IF_ERROR(
        kernels::Gemm(context.kernels(), {.a = dy,
                                          .b = BlockOf(weight, layout, block),
                                          .c = dx.Columns(block.in, block.ins),
                                          .transpose_b = layout == WeightLayout::kInOut,
                                          .accumulate = accumulate}));
  }
  return absl::OkStatus();
}

absl::Status WeightGradient(Context& context, const LinearPart& part, WeightLayout layout,
                            const Matrix& x, const Matrix& dy, const Tensor& dw, bool accumulate) {
  for (const WeightBlock& block : BlocksOf(context, part, layout)) {
    const Matrix in = x.Columns(block.in, block.ins);
    const Matrix out = dy.Columns(block.out, block.outs);
    const bool is_in_out = layout == WeightLayout::kInOut;
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context.kernels(), {.a = is_in_out ? in : out,
                                                             .b = is_in_out ? out : in,
                                                             .c = BlockOf(dw, layout, block),
                                                             .transpose_a = true,
                                                             .accumulate = accumulate}));
  }
  return absl::OkStatus();
}

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
      return InvalidArgument("linear layer with weight '", part.weight->name(), "' ",
                             shape.ToString(), ": its input is ", x.shape().ToString(),
                             ", expected [.., ", in, "]");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> LinearOp(Context& context, const Value& x, absl::Span<const LinearPart> parts,
                               WeightLayout layout, Activation activation, bool is_read) {
  ZEROTH_RETURN_IF_ERROR(ValidateLinearInput(x.data, parts, layout));
  if (activation == Activation::kSilu && context.recording()) {
    return absl::FailedPreconditionError(
        "linear layer: a fused SiLU keeps nothing for backward; use it with recording off");
  }
  int64_t out = 0;
  for (const LinearPart& part : parts) out += OutFeatures(part, layout);
  const bool is_divided = IsDivided(*parts[0].weight);
  if (is_divided && !IsColumnParallel(*parts[0].weight, layout)) {
    return DepthDividedLinearOp(context, x, parts[0], layout, activation, is_read);
  }
  Tensor all = x.data;
  if (is_divided) {
    ZEROTH_RETURN_IF_ERROR(RanksOf(context, *parts[0].weight).status());
    ZEROTH_ASSIGN_OR_RETURN(all, AllRows(context, x.data, parts[0].weight->name()));
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.Empty(all.shape().WithLast(out), all.dtype()));
  const bool keeps_input =
      activation == Activation::kGelu && (context.recording() || context.kept_outputs() != nullptr);
  if (is_divided && activation != Activation::kNone &&
      context.tensor_ranks()->options().deterministic > 0) {
    return absl::InvalidArgumentError(
        "linear layer: an activation is not fused with the blocks of deterministic pieces");
  }
  if (keeps_input && parts.size() != 1) {
    return InvalidArgument("linear layer: a fused GELU is for one projection, not ", parts.size());
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor gelu_input, keeps_input ? context.EmptyLike(y) : Tensor());
  int64_t column = 0;
  for (const LinearPart& part : parts) {
    const Matrix out_part = Matrix(y).Columns(column, OutFeatures(part, layout));
    column += out_part.cols;
    ZEROTH_RETURN_IF_ERROR(ComputeOrReuseMatmul(context, {out_part, gelu_input}, is_read, [&] {
      return ForwardPart(context, part, layout, all, activation, gelu_input, out_part);
    }));
  }
  Value result = context.MakeValue(std::move(y));
  if (context.recording()) {
    result.node->gelu_input = gelu_input;
    context.tape().Record([&context, parts = std::vector<LinearPart>(parts.begin(), parts.end()),
                           layout, x_data = x.data, x_node = x.node, y_node = result.node,
                           is_divided]() -> absl::Status {
      if (y_node->gelu_input.defined()) {
        ZEROTH_RETURN_IF_ERROR(FusedGeluBackward(context, *y_node));
      }
      if (!y_node->grad.defined()) return absl::OkStatus();  // nothing downstream used the result
      const auto backward = is_divided ? OutputDividedBackward : LinearBackward;
      return backward(context, parts, layout, x_data, x_node.get(), y_node->grad);
    });
  }
  return result;
}

}  // namespace zeroth
