// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/low_rank.h"

#include <optional>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/ops/basic.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/divided_linear.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {
namespace {

absl::Status Validate(const Value& x, const Value& y, const LowRankPart& part,
                      WeightLayout layout) {
  if (part.a->shape().rank() != 2 || part.b->shape().rank() != 2 || x.data.shape().rank() < 1 ||
      y.data.shape().rank() < 1 || x.data.dim(-1) != InFeatures({part.a}, layout) ||
      OutFeatures({part.a}, layout) != InFeatures({part.b}, layout) ||
      part.column + OutFeatures({part.b}, layout) > y.data.dim(-1)) {
    return InvalidArgument(
        "low-rank matmul of '", part.a->name(), "' ", part.a->shape().ToString(), " and '",
        part.b->name(), "' ", part.b->shape().ToString(), " with input ", x.data.shape().ToString(),
        ", added at column ", part.column, " of ", y.data.shape().ToString(),
        ": expected the input's last dimension, the rank between them, and as many columns");
  }
  return absl::OkStatus();
}

// Returns the dropout of x before `a`, except for its operands; nullopt: no dropout. x is all of
// the layer's input, some of its columns if `a` is divided, or some of its rows if ranks share
// them.
absl::StatusOr<std::optional<BasicArgs>> DropoutBefore(Context& context, const Tensor& x,
                                                       const Parameter& a, WeightLayout layout,
                                                       float rate) {
  if (rate == 0) return std::nullopt;
  const bool some_columns = IsDivided(a);
  const bool some_rows = !some_columns && context.rows_are_shared();
  const int64_t width = a.global_shape().dim(layout == WeightLayout::kInOut ? 0 : 1);
  const Shape rows = some_rows ? ShapeOfAllRows(context, x.shape()) : x.shape();
  ZEROTH_ASSIGN_OR_RETURN(std::optional<DropoutDraws> draws,
                          DrawsOfDropout(context, rows.WithLast(width), a.name()));
  if (!draws.has_value()) return std::nullopt;
  draws->row_elements = width;
  if (some_columns) draws->first_element += a.part()->index * x.dim(-1);
  if (some_rows) draws->first_element += context.tensor_ranks()->index() * x.numel();
  return BasicArgs{.op = BasicOp::kDropout, .scalar = rate, .draws = *draws};
}

absl::StatusOr<Tensor> Dropped(Context& context, const Tensor& x,
                               const std::optional<BasicArgs>& dropout) {
  if (!dropout.has_value()) return x;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor kept, context.Empty(x.shape(), x.dtype()));
  BasicArgs args = *dropout;
  args.a = x;
  args.out = kept;
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), args));
  return kept;
}

// c (+)= x w for one block of the weight.
absl::Status Forward(Context& context, const Matrix& x, const Parameter& weight,
                     WeightLayout layout, const WeightBlock& block, const Matrix& c,
                     bool accumulate) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(weight));
  return Annotate(kernels::Gemm(context.kernels(), {.a = x.Columns(block.in, block.ins),
                                                    .b = BlockOf(values, layout, block),
                                                    .c = c,
                                                    .transpose_b = layout == WeightLayout::kOutIn,
                                                    .accumulate = accumulate}),
                  weight.name());
}

// Returns scale * the matmul with `matrix`, which is summed over ranks if that is divided, for all
// rows if the other matrix is divided.
absl::StatusOr<Tensor> ScaledMatmul(Context& context, const Parameter& matrix,
                                    const Parameter& other, float scale, const Shape& shape,
                                    DType dtype, const ComputePiece& compute_piece) {
  Tensor result;
  if (IsDivided(matrix)) {
    ZEROTH_ASSIGN_OR_RETURN(
        result, SumOfPiecesOverRanks(context, shape, dtype, matrix.name(), compute_piece));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(result, context.Empty(shape, dtype));
    ZEROTH_RETURN_IF_ERROR(compute_piece(/*piece=*/0, result));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::Scale(context.kernels(), result, scale));
  return IsDivided(other) ? AllRows(context, result, other.name()) : result;
}

// Returns scale * x a, for all rows of y.
absl::StatusOr<Tensor> Inner(Context& context, const Tensor& x, const LowRankPart& part,
                             WeightLayout layout, float scale) {
  const std::vector<WeightBlock> blocks = BlocksOf(context, {part.a}, layout);
  const auto compute_piece = [&](int piece, const Tensor& out) {
    return Forward(context, x, *part.a, layout, blocks[static_cast<size_t>(piece)], out,
                   /*accumulate=*/false);
  };
  return ScaledMatmul(context, *part.a, *part.b, scale,
                      x.shape().WithLast(OutFeatures({part.a}, layout)), x.dtype(), compute_piece);
}

// Returns the gradient of x a, for all rows of x.
absl::StatusOr<Tensor> InnerGradient(Context& context, const LowRankPart& part, WeightLayout layout,
                                     float scale, const Shape& shape, const Tensor& dy) {
  const Matrix dy_part = Matrix(dy).Columns(part.column, OutFeatures({part.b}, layout));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, FullValues(*part.b));
  const auto compute_piece = [&](int piece, const Tensor& out) {
    return PieceInputGradient(context, {part.b}, layout, b, dy_part, piece, out,
                              /*accumulate=*/false);
  };
  return ScaledMatmul(context, *part.b, *part.a, scale, shape, dy.dtype(), compute_piece);
}

// Adds to the gradient of a LoRA matrix, unless it is frozen. If `is_partial`, each rank computes
// it from its own rows only, and ranks sum it.
absl::Status LoraMatrixGradient(Context& context, Parameter& matrix, WeightLayout layout,
                                const Matrix& x, const Matrix& dy, bool is_partial) {
  ZEROTH_ASSIGN_OR_RETURN(const GradientPlace place,
                          TakeGradientPlace(context, matrix, is_partial));
  if (!place.tensor.defined()) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(
      WeightGradient(context, {&matrix}, layout, x, dy, place.tensor, place.accumulate));
  return FinishGradient(context, matrix, place);
}

// `inner` is the forward's scale * dropout(x) a. If the layer is divided, one matrix is divided as
// the layer is. Every rank has all of the other matrix, but computes its gradient from its own rows
// only if rows are shared.
absl::Status Backward(Context& context, const LowRankPart& part, WeightLayout layout, float scale,
                      const std::optional<BasicArgs>& dropout, const Tensor& x,
                      GradientNode* x_node, const Tensor& inner, const Tensor& dy) {
  const Matrix dy_part = Matrix(dy).Columns(part.column, OutFeatures({part.b}, layout));
  ZEROTH_RETURN_IF_ERROR(LoraMatrixGradient(context, *part.b, layout, inner, dy_part,
                                            IsDivided(*part.a) && context.rows_are_shared()));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dinner,
                          InnerGradient(context, part, layout, scale, inner.shape(), dy));
  {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor kept, Dropped(context, x, dropout));
    ZEROTH_RETURN_IF_ERROR(LoraMatrixGradient(context, *part.a, layout, kept, dinner,
                                              IsDivided(*part.b) && context.rows_are_shared()));
  }
  if (x_node == nullptr) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *x_node, x));
  if (!dropout.has_value()) {
    return InputGradient(context, {part.a}, layout, dinner, slot.tensor, slot.accumulate);
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dkept, context.Empty(x.shape(), x.dtype()));
  ZEROTH_RETURN_IF_ERROR(
      InputGradient(context, {part.a}, layout, dinner, dkept, /*accumulate=*/false));
  BasicArgs args = *dropout;
  args.a = dkept;
  args.out = slot.tensor;
  args.accumulate = slot.accumulate;
  return kernels::Basic(context.kernels(), args);
}

}  // namespace

absl::Status AddLowRankOp(Context& context, const Value& x, const Value& y,
                          absl::Span<const LowRankPart> parts, WeightLayout layout, float scale,
                          float dropout) {
  for (const LowRankPart& part : parts) {
    ZEROTH_RETURN_IF_ERROR(Validate(x, y, part, layout));
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<BasicArgs> drop,
                            DropoutBefore(context, x.data, *part.a, layout, dropout));
    Tensor inner;
    {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor kept, Dropped(context, x.data, drop));
      ZEROTH_ASSIGN_OR_RETURN(inner, Inner(context, kept, part, layout, scale));
    }
    for (const WeightBlock& block : BlocksOf(context, {part.b}, layout)) {
      ZEROTH_RETURN_IF_ERROR(Forward(context, inner, *part.b, layout, block,
                                     Matrix(y.data).Columns(part.column + block.out, block.outs),
                                     /*accumulate=*/true));
    }
    if (!context.recording()) continue;
    context.tape().Record([&context, part, layout, scale, drop, x_data = x.data, x_node = x.node,
                           y_node = y.node, inner]() -> absl::Status {
      if (!y_node->grad.defined()) return absl::OkStatus();  // nothing downstream used the result
      return Backward(context, part, layout, scale, drop, x_data, x_node.get(), inner,
                      y_node->grad);
    });
  }
  return absl::OkStatus();
}

}  // namespace zeroth
