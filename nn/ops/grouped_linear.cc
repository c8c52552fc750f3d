// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/grouped_linear.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/nn/kept_outputs.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/divided_linear.h"

namespace zeroth {
namespace {

constexpr WeightLayout kLayout = WeightLayout::kOutIn;

int64_t OutFeatures(const ExpertWeights& weights) { return weights.front()->shape().dim(0); }

bool IsDividedByOutputs(const ExpertWeights& weights) {
  return IsDivided(*weights.front()) && IsColumnParallel(*weights.front(), kLayout);
}
bool IsDividedByDepth(const ExpertWeights& weights) {
  return IsDivided(*weights.front()) && !IsColumnParallel(*weights.front(), kLayout);
}

std::vector<WeightBlock> BlocksOf(Context& context, const ExpertWeights& weights) {
  return BlocksOf(context, {weights.front(), nullptr}, kLayout);
}

// Returns the places of the gradients of all experts' parameters, or none if they are frozen.
absl::StatusOr<std::vector<Parameter::GradientSlot>> TakeGradients(const ExpertWeights& weights) {
  std::vector<Parameter::GradientSlot> slots;
  const auto is_trained = [](const Parameter* weight) { return weight->requires_grad(); };
  const auto trained = std::count_if(weights.begin(), weights.end(), is_trained);
  if (trained == 0) return slots;
  if (trained != static_cast<std::ptrdiff_t>(weights.size())) {
    return FailedPrecondition(weights.front()->name(),
                              " and the same parameter of the other experts: ", trained, " of ",
                              weights.size(), " are trainable; freeze all of them or none");
  }
  for (Parameter* weight : weights) {
    ZEROTH_ASSIGN_OR_RETURN(slots.emplace_back(), weight->TakeGradient());
  }
  return slots;
}

absl::Status AddBiasGradients(Context& context, const ExpertWeights& biases, const Tensor& offsets,
                              const Matrix& dy) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Parameter::GradientSlot> slots, TakeGradients(biases));
  if (slots.empty()) return absl::OkStatus();
  GroupedBiasGradientArgs args{offsets, dy, {}};
  for (const Parameter::GradientSlot& slot : slots) {
    args.outputs.push_back({slot.tensor, slot.accumulate});
  }
  return Annotate(kernels::GroupedBiasGradient(context.kernels(), args), biases.front()->name());
}

absl::Status AddWeightGradients(Context& context, const ExpertWeights& weights,
                                const Tensor& offsets, const Matrix& dy, const Tensor& x) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Parameter::GradientSlot> slots, TakeGradients(weights));
  if (slots.empty()) return absl::OkStatus();
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

// The data that the backward of a GroupedLinearOp needs.
struct GroupedLinear {
  Tensor x;
  Tensor offsets;
  std::vector<ExpertProjection> projections;
  float scale = 1;
  // scale * x a of each projection with adapters, otherwise undefined.
  std::vector<Tensor> inner = {};
};

// The matmul of `in` with a block of each expert's matrix.
struct BlockMatmul {
  WeightBlock block;
  Matrix in;
  Matrix out;
  bool accumulate = false;
  ExpertWeights biases = {};
};

// Computes parts of y (`transposed`), or of the gradient of x, by the matrices of experts from
// `first` on.
absl::Status Multiply(Context& context, const GroupedLinear& of, const BlockMatmul& matmul,
                      absl::Span<const Tensor> matrices, size_t first, bool transposed) {
  const WeightBlock& block = matmul.block;
  GroupedGemmArgs args;
  args.offsets = of.offsets;
  args.a = matmul.in;
  args.transpose_b = transposed;
  args.c = matmul.out;
  args.accumulate = matmul.accumulate;
  const bool is_part = matrices.size() < of.projections.front().weights.size();
  if (is_part) args.first = static_cast<int64_t>(first);
  for (size_t i = 0; i < matrices.size(); ++i) {
    args.b.push_back(BlockOf(matrices[i], kLayout, block));
    if (matmul.biases.empty()) continue;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor bias, FullValues(*matmul.biases[first + i]));
    args.biases.push_back(bias.View(block.out, Shape({block.outs})));
  }
  return kernels::GroupedGemm(context.kernels(), args);
}

// Multiplies by all experts' matrices. Packed ones are unpacked once, for all matmuls.
absl::Status MultiplyAll(Context& context, const GroupedLinear& of, const ExpertWeights& weights,
                         absl::Span<const PackedWeight* const> packed,
                         absl::Span<const BlockMatmul> matmuls, bool transposed) {
  const size_t experts = weights.size();
  const Shape& shape = weights.front()->shape();
  size_t at_once = experts;
  Tensor unpacked;
  if (!packed.empty()) {
    at_once = static_cast<size_t>(std::clamp<int64_t>(
        kMostUnpacked / std::max<int64_t>(shape.numel(), 1), 1, static_cast<int64_t>(experts)));
    ZEROTH_ASSIGN_OR_RETURN(
        unpacked, context.Empty(Shape({static_cast<int64_t>(at_once), shape.dim(0), shape.dim(1)}),
                                of.x.dtype()));
  }
  for (size_t first = 0; first < experts; first += at_once) {
    std::vector<Tensor> matrices;
    for (size_t e = first; e < std::min(first + at_once, experts); ++e) {
      if (packed.empty()) {
        ZEROTH_ASSIGN_OR_RETURN(matrices.emplace_back(), FullValues(*weights[e]));
      } else {
        matrices.push_back(unpacked.View(static_cast<int64_t>(e - first) * shape.numel(), shape));
      }
    }
    if (!packed.empty()) {
      const auto count = static_cast<int64_t>(matrices.size());
      ZEROTH_RETURN_IF_ERROR(
          UnpackWeights(context, packed.subspan(first, matrices.size()), matrices,
                        of.offsets.View(static_cast<int64_t>(first), Shape({count + 1}))));
    }
    for (const BlockMatmul& matmul : matmuls) {
      ZEROTH_RETURN_IF_ERROR_WITH(Multiply(context, of, matmul, matrices, first, transposed),
                                  weights.front()->name());
    }
  }
  return absl::OkStatus();
}

// Returns scale * in a (`transposed`), or the gradient of in a: scale * in b^T. A divided matrix's
// matmuls are summed over ranks.
absl::StatusOr<Tensor> InnerActivations(Context& context, const GroupedLinear& of,
                                        const ExpertWeights& matrix, const Matrix& in, DType dtype,
                                        bool transposed) {
  const std::vector<WeightBlock> blocks = BlocksOf(context, matrix);
  const auto compute_piece = [&](int piece, const Tensor& out) {
    const WeightBlock& block = blocks[static_cast<size_t>(piece)];
    const Matrix columns =
        transposed ? in.Columns(block.in, block.ins) : in.Columns(block.out, block.outs);
    const BlockMatmul matmul = {block, columns, out};
    return MultiplyAll(context, of, matrix, {}, absl::MakeSpan(&matmul, 1), transposed);
  };
  const Parameter& first = *matrix.front();
  const Shape shape({of.x.dim(0), first.global_shape().dim(transposed ? 0 : 1)});
  Tensor result;
  if (IsDivided(first)) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor sum,
                            LocalSumOfPieces(context, shape, dtype, compute_piece));
    ZEROTH_RETURN_IF_ERROR(context.tensor_ranks()->Sum(sum, first.name()));
    ZEROTH_ASSIGN_OR_RETURN(result, CastTo(context, sum, dtype));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(result, context.Empty(shape, dtype));
    ZEROTH_RETURN_IF_ERROR(compute_piece(/*piece=*/0, result));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::Scale(context.kernels(), result, of.scale));
  return result;
}

// Adds the matmul of `inner` with the other matrix to `out`, from `column` on. If `out` has a
// summand for each piece of all ranks, the first of them gets it.
absl::Status AddOuter(Context& context, const GroupedLinear& of, const ExpertWeights& matrix,
                      const Tensor& inner, const Tensor& out, int64_t column, bool in_pieces,
                      bool transposed) {
  if (in_pieces && context.tensor_ranks()->index() != 0) return absl::OkStatus();
  const Matrix sum = in_pieces ? Matrix(PieceOf(out, 0, of.x.dim(0))) : Matrix(out);
  std::vector<BlockMatmul> matmuls;
  for (const WeightBlock& block : BlocksOf(context, matrix)) {
    const Matrix columns = transposed ? sum.Columns(column + block.out, block.outs)
                                      : sum.Columns(column + block.in, block.ins);
    matmuls.push_back({block, inner, columns, /*accumulate=*/true});
  }
  return MultiplyAll(context, of, matrix, {}, matmuls, transposed);
}

// Adds to the gradient of x in `node`. If weights are divided by outputs, adds a summand for each
// piece of them, one after the other. `dinner` has the gradients of x a.
absl::Status InputGradient(Context& context, const GroupedLinear& of, const Tensor& dy,
                           const std::vector<Tensor>& dinner, GradientNode& node) {
  const int64_t pairs = of.x.dim(0);
  const bool in_pieces = IsDividedByOutputs(of.projections.front().weights);
  NodeSlot slot;
  if (in_pieces) {
    const int64_t pieces = context.tensor_ranks()->options().pieces();
    ZEROTH_ASSIGN_OR_RETURN(slot.tensor, context.Empty(Shape({pieces * pairs, of.x.dim(1)}),
                                                       SumType(context, of.x.dtype())));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(slot, TakeGradient(context, node, of.x));
  }
  int64_t column = 0;
  for (size_t i = 0; i < of.projections.size(); ++i) {
    const ExpertWeights& weights = of.projections[i].weights;
    int64_t piece = 0;
    std::vector<BlockMatmul> matmuls;
    for (const WeightBlock& block : BlocksOf(context, weights)) {
      const Matrix in = Matrix(dy).Columns(column + block.out, block.outs);
      const Matrix out = in_pieces ? Matrix(PieceOf(slot.tensor, piece++, pairs))
                                   : Matrix(slot.tensor).Columns(block.in, block.ins);
      matmuls.push_back({block, in, out, slot.accumulate || column > 0});
    }
    ZEROTH_RETURN_IF_ERROR(MultiplyAll(context, of, weights, of.projections[i].packed, matmuls,
                                       /*transposed=*/false));
    column += OutFeatures(weights);
    if (!dinner[i].defined()) continue;
    ZEROTH_RETURN_IF_ERROR(AddOuter(context, of, of.projections[i].a, dinner[i], slot.tensor,
                                    /*column=*/0, in_pieces, /*transposed=*/false));
  }
  return in_pieces ? AddGradient(context, node, std::move(slot.tensor)) : absl::OkStatus();
}

absl::Status Backward(Context& context, const GroupedLinear& of, const Tensor& dy,
                      GradientNode* node) {
  std::vector<Tensor> dinner(of.projections.size());
  int64_t column = 0;
  for (size_t i = 0; i < of.projections.size(); ++i) {
    const auto& [weights, a, b, biases, packed] = of.projections[i];
    const Matrix dy_part = Matrix(dy).Columns(column, OutFeatures(weights));
    column += OutFeatures(weights);
    ZEROTH_RETURN_IF_ERROR(AddWeightGradients(context, weights, of.offsets, dy_part, of.x));
    if (!biases.empty()) {
      ZEROTH_RETURN_IF_ERROR(AddBiasGradients(context, biases, of.offsets, dy_part));
    }
    if (b.empty()) continue;
    ZEROTH_RETURN_IF_ERROR(AddWeightGradients(context, b, of.offsets, dy_part, of.inner[i]));
    ZEROTH_ASSIGN_OR_RETURN(dinner[i], InnerActivations(context, of, b, dy_part, dy.dtype(),
                                                        /*transposed=*/false));
    ZEROTH_RETURN_IF_ERROR(AddWeightGradients(context, a, of.offsets, dinner[i], of.x));
  }
  return node == nullptr ? absl::OkStatus() : InputGradient(context, of, dy, dinner, *node);
}

}  // namespace

Tensor PieceOf(const Tensor& grouped, int64_t index, int64_t pairs) {
  const int64_t dim = grouped.dim(-1);
  return grouped.View(index * pairs * dim, Shape({pairs, dim}));
}

absl::StatusOr<Value> GroupedLinearOp(Context& context, const Value& grouped, const Tensor& offsets,
                                      const std::vector<ExpertProjection>& projections,
                                      float scale) {
  GroupedLinear of{grouped.data, offsets, projections, scale};
  const int64_t pairs = of.x.dim(0);
  const ExpertWeights& first = projections.front().weights;
  if (IsDivided(*first.front())) {
    ZEROTH_RETURN_IF_ERROR(RanksOf(context, *first.front()).status());
  }
  int64_t out = 0;
  for (const ExpertProjection& projection : projections) out += OutFeatures(projection.weights);
  const bool in_pieces = IsDividedByDepth(first);
  const int64_t pieces = in_pieces ? context.tensor_ranks()->options().pieces() : 1;
  ZEROTH_ASSIGN_OR_RETURN(Tensor y,
                          context.Empty(Shape({pieces * pairs, out}),
                                        in_pieces ? SumType(context, of.x.dtype()) : of.x.dtype()));
  int64_t column = 0;
  for (const auto& [weights, a, b, biases, packed] : projections) {
    const Matrix outputs = in_pieces ? Matrix(y) : Matrix(y).Columns(column, OutFeatures(weights));
    const auto multiply = [&, &weights = weights, &biases = biases,
                           &packed = packed]() -> absl::Status {
      std::vector<BlockMatmul> matmuls;
      int64_t piece = 0;
      for (const WeightBlock& block : BlocksOf(context, weights)) {
        const bool is_summand = in_pieces && (piece > 0 || context.tensor_ranks()->index() > 0);
        const Matrix to = in_pieces ? Matrix(PieceOf(y, piece++, pairs))
                                    : Matrix(y).Columns(column + block.out, block.outs);
        matmuls.push_back({block, Matrix(of.x).Columns(block.in, block.ins), to,
                           /*accumulate=*/false, is_summand ? ExpertWeights() : biases});
      }
      return MultiplyAll(context, of, weights, packed, matmuls, /*transposed=*/true);
    };
    ZEROTH_RETURN_IF_ERROR(ComputeOrReuseMatmul(context, {outputs}, /*is_read=*/true, multiply));
    Tensor inner;
    if (!a.empty()) {
      ZEROTH_ASSIGN_OR_RETURN(inner, InnerActivations(context, of, a, of.x, of.x.dtype(),
                                                      /*transposed=*/true));
      ZEROTH_RETURN_IF_ERROR(
          AddOuter(context, of, b, inner, y, column, in_pieces, /*transposed=*/true));
    }
    of.inner.push_back(std::move(inner));
    column += OutFeatures(weights);
  }
  Value result = context.MakeValue(std::move(y));
  RecordBackward(context, result, [&context, of, node = grouped.node](const Tensor& dy) {
    return Backward(context, of, dy, node.get());
  });
  return result;
}

}  // namespace zeroth
