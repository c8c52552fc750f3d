// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/divided_linear.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/kept_outputs.h"
#include "zeroth/nn/ops/divided.h"

namespace zeroth {
namespace {

int PiecesOf(Context& context, const LinearPart& part) {
  return IsDivided(*part.weight) ? context.tensor_ranks()->options().pieces() : 1;
}

// The values of a part's weight for the matmuls of its pieces in order: a packed weight is unpacked
// for the first, and released after the last.
class WeightOfPieces {
 public:
  absl::StatusOr<Tensor> Take(Context& context, const LinearPart& part, DType dtype, int piece) {
    if (!weight_.defined()) {
      ZEROTH_ASSIGN_OR_RETURN(weight_, WeightValues(context, part, dtype));
    }
    return piece + 1 == PiecesOf(context, part) ? std::exchange(weight_, Tensor()) : weight_;
  }

 private:
  Tensor weight_;
};

}  // namespace

std::vector<WeightBlock> BlocksOf(Context& context, const LinearPart& part, WeightLayout layout) {
  const WeightBlock all = {0, OutFeatures(part, layout), 0, InFeatures(part, layout)};
  if (!IsDivided(*part.weight) || context.tensor_ranks()->options().deterministic == 0) {
    return {all};
  }
  const int pieces = context.tensor_ranks()->options().pieces();
  std::vector<WeightBlock> blocks;
  for (int piece = 0; piece < pieces; ++piece) {
    if (!IsColumnParallel(*part.weight, layout)) {
      const int64_t depth = all.ins / pieces;
      blocks.push_back({0, all.outs, piece * depth, depth});
      continue;
    }
    const ParameterPart& division = *part.weight->part();
    std::vector<int64_t> widths = {all.outs};  // this rank's share of each section
    if (!division.sections.empty()) widths.clear();
    for (const int64_t section : division.sections) widths.push_back(section / division.count);
    int64_t begin = 0;
    for (const int64_t width : widths) {
      blocks.push_back({begin + piece * (width / pieces), width / pieces, 0, all.ins});
      begin += width;
    }
  }
  return blocks;
}

Matrix BlockOf(const Tensor& weight, WeightLayout layout, const WeightBlock& block) {
  const bool is_in_out = layout == WeightLayout::kInOut;
  Matrix rows = weight;
  rows.offset += (is_in_out ? block.in : block.out) * rows.stride;
  rows.rows = is_in_out ? block.ins : block.outs;
  return is_in_out ? rows.Columns(block.out, block.outs) : rows.Columns(block.in, block.ins);
}

bool IsColumnParallel(const Parameter& weight, WeightLayout layout) {
  return weight.part()->dim == (layout == WeightLayout::kInOut ? 1 : 0);
}

absl::Status PieceInputGradient(Context& context, const LinearPart& part, WeightLayout layout,
                                const Tensor& weight, const Matrix& dy, int piece,
                                const Matrix& out, bool accumulate) {
  const std::vector<WeightBlock> blocks = BlocksOf(context, part, layout);
  const size_t sections = blocks.size() / static_cast<size_t>(PiecesOf(context, part));
  for (size_t i = 0; i < sections; ++i) {
    const WeightBlock& block = blocks[static_cast<size_t>(piece) * sections + i];
    ZEROTH_RETURN_IF_ERROR(
        kernels::Gemm(context.kernels(), {.a = dy.Columns(block.out, block.outs),
                                          .b = BlockOf(weight, layout, block),
                                          .c = out,
                                          .transpose_b = layout == WeightLayout::kInOut,
                                          .accumulate = accumulate || i > 0}));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> DepthDividedLinearOp(Context& context, const Value& x, const LinearPart& part,
                                           WeightLayout layout, Activation activation,
                                           bool is_read) {
  const std::string& name = part.weight->name();
  ZEROTH_ASSIGN_OR_RETURN(TensorRanks* const ranks, RanksOf(context, *part.weight));
  if (activation != Activation::kNone) {
    return InvalidArgument("linear layer '", name,
                           "': an activation of what is a sum over ranks; apply it after");
  }
  // Only one rank adds the bias, so that the sum over ranks has it once.
  const bool adds_bias = part.bias != nullptr && ranks->index() == 0;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor bias, adds_bias ? FullValues(*part.bias) : Tensor());
  const std::vector<WeightBlock> blocks = BlocksOf(context, part, layout);
  WeightOfPieces values;
  const auto compute_piece = [&](int piece, const Tensor& out) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, values.Take(context, part, x.data.dtype(), piece));
    const WeightBlock& block = blocks[static_cast<size_t>(piece)];
    return kernels::Gemm(context.kernels(), {.a = Matrix(x.data).Columns(block.in, block.ins),
                                             .b = BlockOf(weight, layout, block),
                                             .c = out,
                                             .transpose_b = layout == WeightLayout::kOutIn,
                                             .bias = piece == 0 ? bias : Tensor()});
  };
  const Shape shape = x.data.shape().WithLast(OutFeatures(part, layout));
  const DType dtype = x.data.dtype();
  ZEROTH_ASSIGN_OR_RETURN(
      Tensor y, ComputeOrReuseSum(context, ShapeOfOwnRows(context, shape), dtype, is_read, [&] {
        return SumOfPiecesOverRanks(context, shape, dtype, name, compute_piece);
      }));
  Value result = context.MakeValue(std::move(y));
  RecordBackward(
      context, result,
      [&context, part, layout, x_data = x.data, x_node = x.node](const Tensor& dy) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor all, AllRows(context, dy, part.weight->name()));
        return LinearBackward(context, absl::MakeConstSpan(&part, 1), layout, x_data, x_node.get(),
                              all);
      });
  return result;
}

absl::Status OutputDividedBackward(Context& context, absl::Span<const LinearPart> parts,
                                   WeightLayout layout, const Tensor& x, GradientNode* x_node,
                                   const Tensor& dy) {
  const std::string& name = parts[0].weight->name();
  std::vector<WeightOfPieces> values(parts.size());
  const auto compute_piece = [&](int piece, const Tensor& out) -> absl::Status {
    int64_t column = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const LinearPart& part = parts[i];
      const int64_t width = OutFeatures(part, layout);
      ZEROTH_ASSIGN_OR_RETURN(const Tensor weight,
                              values[i].Take(context, part, dy.dtype(), piece));
      ZEROTH_RETURN_IF_ERROR(PieceInputGradient(context, part, layout, weight,
                                                Matrix(dy).Columns(column, width), piece, out,
                                                /*accumulate=*/column > 0));
      column += width;
    }
    return absl::OkStatus();
  };
  // The gather of x overlaps the computation of this rank's summand of dx, and the sum of dx
  // overlaps that of the weights' gradients.
  Tensor summand;
  const auto input_gradient = [&]() -> absl::Status {
    if (x_node == nullptr) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(summand, LocalSumOfPieces(context, ShapeOfAllRows(context, x.shape()),
                                                      x.dtype(), compute_piece));
    return absl::OkStatus();
  };
  ZEROTH_ASSIGN_OR_RETURN(const Tensor all, AllRows(context, x, name, input_gradient));
  const auto weight_gradients = [&] {
    return LinearBackward(context, parts, layout, all, nullptr, dy);
  };
  if (x_node == nullptr) return weight_gradients();
  ZEROTH_ASSIGN_OR_RETURN(Tensor dx,
                          RoundedSumOverRanks(context, summand, x.dtype(), name, weight_gradients));
  return AddGradient(context, *x_node, std::move(dx));
}

}  // namespace zeroth
