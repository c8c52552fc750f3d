// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/norm.h"

#include <numeric>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/nn/ops/divided.h"

namespace zeroth {
namespace {

absl::Status Validate(const Value& x, const Value& residual, const Parameter& gamma,
                      const Parameter* beta) {
  const Shape& shape = x.data.shape();
  if (shape.rank() < 1 || gamma.shape() != Shape({shape.dim(-1)})) {
    return InvalidArgument("norm with weight '", gamma.name(), "' ", gamma.shape().ToString(),
                           ": its input is ", shape.ToString(), ", expected [.., ", gamma.numel(),
                           "]");
  }
  if (IsDivided(gamma) && (beta != nullptr || residual.data.defined())) {
    return Unimplemented("norm with weight '", gamma.name(),
                         "', which is divided among tensor ranks: a bias or a residual with it");
  }
  if (residual.data.defined() && residual.data.shape() != shape) {
    return InvalidArgument("norm with weight '", gamma.name(), "': residual ",
                           residual.data.shape().ToString(), " added to ", shape.ToString());
  }
  return absl::OkStatus();
}

// The gradient of a sum is the gradient of both summands. They share the tensor, which is copied
// before anything is added to it.
absl::Status PassToSummands(Context& context, GradientNode& sum, GradientNode* x,
                            GradientNode* residual) {
  if (!sum.grad.defined()) return absl::OkStatus();
  Tensor grad = std::exchange(sum.grad, Tensor());
  if (residual != nullptr) ZEROTH_RETURN_IF_ERROR(AddGradient(context, *residual, grad));
  if (x != nullptr) ZEROTH_RETURN_IF_ERROR(AddGradient(context, *x, std::move(grad)));
  return absl::OkStatus();
}

// The number of equal pieces that this rank's heads are divided into, so that all ranks together
// have the same number of pieces for every number of ranks.
int PiecesOfHeads(Context& context, int64_t heads) {
  const int64_t pieces = context.tensor_ranks()->options().pieces();
  return static_cast<int>(std::gcd(pieces, heads));
}

// Runs RmsNormBackward of [.., heads, dim] for one piece of the heads at a time, and sums the
// pieces' gradients of the weight along one tree.
absl::Status BackwardByPieces(Context& context, const LayerNormBackwardArgs& args) {
  const int64_t dim = args.x.dim(-1);
  const int64_t heads = args.x.dim(-2);
  const int pieces = PiecesOfHeads(context, heads);
  const int64_t of_piece = heads / pieces;
  const int64_t tokens = args.x.numel() / (heads * dim);
  const Shape wide({tokens, heads * dim});
  const Shape rows({tokens * of_piece, dim});
  const auto backward = [&](int piece, const Tensor& dgamma) -> absl::Status {
    const auto columns = [&](const Tensor& all) {
      return Matrix(all.Reshape(wide)).Columns(piece * of_piece * dim, of_piece * dim);
    };
    LayerNormBackwardArgs some;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor dy, CopyOf(context, columns(args.dy)));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor x, CopyOf(context, columns(args.x)));
    const Matrix rstd = args.rstd.Reshape(Shape({tokens, heads}));
    ZEROTH_ASSIGN_OR_RETURN(some.rstd, CopyOf(context, rstd.Columns(piece * of_piece, of_piece)));
    some.dy = dy.Reshape(rows);
    some.x = x.Reshape(rows);
    some.gamma = args.gamma;
    some.gamma_offset = args.gamma_offset;
    // The kernel adds the earlier gradient before its only rounding, as it does without pieces.
    ZEROTH_ASSIGN_OR_RETURN(const Tensor dx,
                            args.accumulate_dx ? CopyOf(context, columns(args.dx)) : dy);
    some.dx = dx.Reshape(rows);
    some.accumulate_dx = args.accumulate_dx;
    some.dgamma = dgamma;
    ZEROTH_RETURN_IF_ERROR(kernels::RmsNormBackward(context.kernels(), some));
    return kernels::Basic(context.kernels(), {.a = dx, .out = columns(args.dx)});
  };
  if (args.dgamma.defined()) return SumPieces(context, pieces, args.dgamma, backward);
  for (int piece = 0; piece < pieces; ++piece) {
    ZEROTH_RETURN_IF_ERROR(backward(piece, Tensor()));
  }
  return absl::OkStatus();
}

// Returns RmsSums of whole rows, of which x and dy have the columns of this rank's part of `gamma`.
absl::StatusOr<Tensor> SumsOfWholeRows(Context& context, const Parameter& gamma, float gamma_offset,
                                       const Tensor& x, const Tensor& dy, const Tensor& rstd) {
  ZEROTH_ASSIGN_OR_RETURN(TensorRanks* const ranks, RanksOf(context, gamma));
  const int64_t cols = gamma.numel() / ranks->options().pieces();
  ZEROTH_ASSIGN_OR_RETURN(Tensor sums,
                          context.Empty(Shape({x.numel() / gamma.numel()}), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(gamma));
  ZEROTH_RETURN_IF_ERROR(SumPieces(context, sums, [&](int piece, const Tensor& out) {
    RmsSumsArgs args;
    args.x = Matrix(x).Columns(piece * cols, cols);
    if (dy.defined()) {
      args.dy = Matrix(dy).Columns(piece * cols, cols);
      args.gamma = values.View(piece * cols, Shape({cols}));
      args.gamma_offset = gamma_offset;
      args.rstd = rstd;
    }
    args.sums = out;
    return kernels::RmsSums(context.kernels(), args);
  }));
  ZEROTH_RETURN_IF_ERROR(ranks->Sum(sums, gamma.name()));
  return sums;
}

// The data that the backward of a normalisation needs.
struct Normalised {
  Tensor x;  // what was normalised
  Parameter* gamma = nullptr;
  Parameter* beta = nullptr;
  Tensor mean;
  Tensor rstd;
  float gamma_offset = 0.0f;
  bool of_heads = false;
  bool is_partial = false;  // the weights' gradients are summed over ranks
};

// Adds the gradient of `x` to `node`, and those of the weights.
absl::Status Backward(Context& context, const Normalised& of, const Tensor& dy,
                      GradientNode& node) {
  LayerNormBackwardArgs args;
  args.dy = dy;
  args.x = of.x;
  ZEROTH_ASSIGN_OR_RETURN(args.gamma, FullValues(*of.gamma));
  args.gamma_offset = of.gamma_offset;
  args.mean = of.mean;
  args.rstd = of.rstd;
  if (IsDivided(*of.gamma)) {
    ZEROTH_ASSIGN_OR_RETURN(
        args.sums, SumsOfWholeRows(context, *of.gamma, of.gamma_offset, of.x, dy, of.rstd));
    args.width = of.gamma->global_numel();
  }
  ZEROTH_ASSIGN_OR_RETURN(NodeSlot slot, TakeGradient(context, node, of.x));
  args.dx = std::move(slot.tensor);
  args.accumulate_dx = slot.accumulate;
  ZEROTH_ASSIGN_OR_RETURN(const GradientPlace dgamma,
                          TakeGradientPlace(context, *of.gamma, of.is_partial));
  args.dgamma = dgamma.tensor;
  args.accumulate_dgamma = dgamma.accumulate;
  if (of.beta == nullptr) {
    const bool by_pieces = of.of_heads && PiecesOfHeads(context, of.x.dim(-2)) > 1;
    ZEROTH_RETURN_IF_ERROR(by_pieces ? BackwardByPieces(context, args)
                                     : kernels::RmsNormBackward(context.kernels(), args));
    return FinishGradient(context, *of.gamma, dgamma);
  }
  ZEROTH_ASSIGN_OR_RETURN(const GradientPlace dbeta,
                          TakeGradientPlace(context, *of.beta, of.is_partial));
  args.dbeta = dbeta.tensor;
  args.accumulate_dbeta = dbeta.accumulate;
  ZEROTH_RETURN_IF_ERROR(kernels::LayerNormBackward(context.kernels(), args));
  ZEROTH_RETURN_IF_ERROR(FinishGradient(context, *of.gamma, dgamma));
  return FinishGradient(context, *of.beta, dbeta);
}

}  // namespace

absl::StatusOr<NormResult> NormOp(Context& context, const Value& x, const Value& residual,
                                  Parameter& gamma, Parameter* beta, float eps, bool of_heads,
                                  float gamma_offset) {
  ZEROTH_RETURN_IF_ERROR(Validate(x, residual, gamma, beta));
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
  args.gamma_offset = gamma_offset;
  if (beta != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(args.beta, FullValues(*beta));
    ZEROTH_ASSIGN_OR_RETURN(args.mean, context.Empty(Shape({rows}), DType::kFloat32));
  }
  if (IsDivided(gamma)) {
    ZEROTH_ASSIGN_OR_RETURN(
        args.sums, SumsOfWholeRows(context, gamma, gamma_offset, x.data, Tensor(), Tensor()));
    args.width = gamma.global_numel();
  }
  const auto norm = beta != nullptr ? kernels::LayerNorm : kernels::RmsNorm;
  ZEROTH_RETURN_IF_ERROR(norm(context.kernels(), args));
  if (!context.recording()) return result;

  const bool is_partial = !IsDivided(gamma) && (of_heads || context.rows_are_shared());
  context.tape().Record([&context,
                         of = Normalised{result.sum.data, &gamma, beta, args.mean, args.rstd,
                                         gamma_offset, of_heads, is_partial},
                         sum = result.sum.node, x_node = x.node, residual_node = residual.node,
                         out = result.normalized.node, summed]() -> absl::Status {
    if (out->grad.defined() && sum != nullptr) {
      ZEROTH_RETURN_IF_ERROR(Backward(context, of, out->grad, *sum));
    }
    return summed ? PassToSummands(context, *sum, x_node.get(), residual_node.get())
                  : absl::OkStatus();
  });
  return result;
}

}  // namespace zeroth
