// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/grouped_linear.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/nn/kept_outputs.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/divided_linear.h"

namespace zeroth {
namespace {

constexpr WeightLayout kLayout = WeightLayout::kOutIn;

int64_t OutFeatures(const ExpertWeights& weights) { return weights.front()->shape().dim(0); }

bool IsDividedByOutputs(const ExpertWeights& weights) {
  return IsDivided(*weights.front()) && TakesAllInputs(*weights.front(), kLayout);
}
bool IsDividedByDepth(const ExpertWeights& weights) {
  return IsDivided(*weights.front()) && !TakesAllInputs(*weights.front(), kLayout);
}

std::vector<WeightBlock> BlocksOf(Context& context, const ExpertWeights& weights) {
  return BlocksOf(context, {weights.front(), nullptr}, kLayout);
}

// Returns the block of each expert's matrix.
absl::StatusOr<std::vector<Matrix>> BlocksOfExperts(const ExpertWeights& weights,
                                                    const WeightBlock& block) {
  std::vector<Matrix> matrices;
  for (const Parameter* weight : weights) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(*weight));
    matrices.push_back(BlockOf(values, kLayout, block));
  }
  return matrices;
}

absl::Status AddWeightGradients(Context& context, const ExpertWeights& weights,
                                const Tensor& offsets, const Matrix& dy, const Tensor& x) {
  const auto is_trained = [](const Parameter* weight) { return weight->requires_grad(); };
  const auto trained = std::count_if(weights.begin(), weights.end(), is_trained);
  if (trained == 0) return absl::OkStatus();
  if (trained != static_cast<std::ptrdiff_t>(weights.size())) {
    return FailedPrecondition(weights.front()->name(),
                              " and the same matrix of the other experts: ", trained, " of ",
                              weights.size(), " are trainable; freeze all of them or none");
  }
  std::vector<Parameter::GradientSlot> slots;
  for (Parameter* weight : weights) {
    ZEROTH_ASSIGN_OR_RETURN(slots.emplace_back(), weight->TakeGradient());
  }
  for (const WeightBlock& block : BlocksOf(context, weights)) {
    GroupedGradientArgs args;
    args.offsets = offsets;
    args.a = dy.Columns(block.out, block.outs);
    args.b = Matrix(x).Columns(block.in, block.ins);
    for (const Parameter::GradientSlot& slot : slots) {
      args.c.push_back({BlockOf(slot.tensor, kLayout, block), slot.accumulate});
    }
    ZEROTH_RETURN_IF_ERROR(kernels::GroupedGradient(context.kernels(), args));
  }
  return absl::OkStatus();
}

// What the backward of a GroupedLinearOp needs.
struct GroupedLinear {
  Tensor x;
  Tensor offsets;
  std::vector<ExpertWeights> projections;
};

// Computes a block's part of y (`transposed`), or of the gradient of x.
absl::Status BlockProduct(Context& context, const GroupedLinear& of, const ExpertWeights& weights,
                          const WeightBlock& block, const Matrix& in, const Matrix& out,
                          bool transposed, bool accumulate) {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<Matrix> matrices, BlocksOfExperts(weights, block));
  return Annotate(kernels::GroupedGemm(context.kernels(), {.offsets = of.offsets,
                                                           .a = in,
                                                           .b = std::move(matrices),
                                                           .transpose_b = transposed,
                                                           .c = out,
                                                           .accumulate = accumulate}),
                  weights.front()->name());
}

// Adds to the gradient of x in `node`. If weights are divided by outputs, adds a summand for each
// piece of them, one after the other.
absl::Status InputGradient(Context& context, const GroupedLinear& of, const Tensor& dy,
                           GradientNode& node) {
  const int64_t pairs = of.x.dim(0);
  const bool in_pieces = IsDividedByOutputs(of.projections.front());
  NodeSlot slot;
  if (in_pieces) {
    const int64_t pieces = context.tensor_ranks()->options().pieces();
    ZEROTH_ASSIGN_OR_RETURN(slot.tensor, context.Empty(Shape({pieces * pairs, of.x.dim(1)}),
                                                       SumType(context, of.x.dtype())));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(slot, TakeGradient(context, node, of.x));
  }
  int64_t column = 0;
  for (const ExpertWeights& weights : of.projections) {
    int64_t piece = 0;
    for (const WeightBlock& block : BlocksOf(context, weights)) {
      const Matrix in = Matrix(dy).Columns(column + block.out, block.outs);
      const Matrix out = in_pieces ? Matrix(PieceOf(slot.tensor, piece++, pairs))
                                   : Matrix(slot.tensor).Columns(block.in, block.ins);
      ZEROTH_RETURN_IF_ERROR(BlockProduct(context, of, weights, block, in, out,
                                          /*transposed=*/false, slot.accumulate || column > 0));
    }
    column += OutFeatures(weights);
  }
  return in_pieces ? AddGradient(context, node, std::move(slot.tensor)) : absl::OkStatus();
}

}  // namespace

Tensor PieceOf(const Tensor& grouped, int64_t index, int64_t pairs) {
  const int64_t dim = grouped.dim(-1);
  return grouped.View(index * pairs * dim, Shape({pairs, dim}));
}

absl::StatusOr<Value> GroupedLinearOp(Context& context, const Value& grouped, const Tensor& offsets,
                                      const std::vector<ExpertWeights>& projections) {
  const GroupedLinear of{grouped.data, offsets, projections};
  const int64_t pairs = of.x.dim(0);
  const Parameter& first = *projections.front().front();
  if (IsDivided(first)) ZEROTH_RETURN_IF_ERROR(RanksOf(context, first).status());
  int64_t out = 0;
  for (const ExpertWeights& weights : projections) out += OutFeatures(weights);
  const bool in_pieces = IsDividedByDepth(projections.front());
  const int64_t pieces = in_pieces ? context.tensor_ranks()->options().pieces() : 1;
  ZEROTH_ASSIGN_OR_RETURN(Tensor y,
                          context.Empty(Shape({pieces * pairs, out}),
                                        in_pieces ? SumType(context, of.x.dtype()) : of.x.dtype()));
  int64_t column = 0;
  for (const ExpertWeights& weights : projections) {
    const Matrix outputs = in_pieces ? Matrix(y) : Matrix(y).Columns(column, OutFeatures(weights));
    const auto multiply = [&]() -> absl::Status {
      int64_t piece = 0;
      for (const WeightBlock& block : BlocksOf(context, weights)) {
        const Matrix to = in_pieces ? Matrix(PieceOf(y, piece++, pairs))
                                    : Matrix(y).Columns(column + block.out, block.outs);
        ZEROTH_RETURN_IF_ERROR(BlockProduct(context, of, weights, block,
                                            Matrix(of.x).Columns(block.in, block.ins), to,
                                            /*transposed=*/true, /*accumulate=*/false));
      }
      return absl::OkStatus();
    };
    ZEROTH_RETURN_IF_ERROR(MakeOrTakeProduct(context, {outputs}, /*is_read=*/true, multiply));
    column += OutFeatures(weights);
  }
  Value result = context.MakeValue(std::move(y));
  RecordBackward(
      context, result, [&context, of, node = grouped.node](const Tensor& dy) -> absl::Status {
        int64_t first_column = 0;
        for (const ExpertWeights& weights : of.projections) {
          const int64_t width = OutFeatures(weights);
          ZEROTH_RETURN_IF_ERROR(AddWeightGradients(context, weights, of.offsets,
                                                    Matrix(dy).Columns(first_column, width), of.x));
          first_column += width;
        }
        return node == nullptr ? absl::OkStatus() : InputGradient(context, of, dy, *node);
      });
  return result;
}

}  // namespace zeroth
