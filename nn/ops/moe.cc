// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/moe.h"

#include <utility>

#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/kept_outputs.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/grouped_linear.h"
#include "zeroth/nn/ops/linear.h"

namespace zeroth {
namespace {

constexpr char kLabel[] = "experts";  // the label of sums over ranks

// Returns softmax(logits) of each token, fp32 [tokens, experts].
absl::StatusOr<Tensor> Probabilities(Context& context, const Tensor& logits) {
  const Shape rows({logits.numel() / logits.dim(-1), logits.dim(-1)});
  ZEROTH_ASSIGN_OR_RETURN(Tensor p, context.Empty(rows, DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(kernels::Cast(context.kernels(), logits.Reshape(rows), p));
  ZEROTH_RETURN_IF_ERROR(
      kernels::Basic(context.kernels(), {.op = BasicOp::kSoftmax, .a = p, .out = p}));
  return p;
}

// The data that the backward of a CombineOp needs.
struct Combined {
  Tensor grouped;
  Tensor rows;
  Tensor weights;
  TensorRanks* ranks = nullptr;
};

// Returns the gradient of the weights, fp32 [tokens, top_k].
absl::StatusOr<Tensor> GradientOfWeights(Context& context, const Combined& of, const Tensor& dy) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor dweights, context.Empty(of.weights.shape(), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor tokens, CastTo(context, dy, of.grouped.dtype()));
  const auto piece_of = [&](int piece, const Tensor& out) {
    return kernels::RowDots(context.kernels(),
                            {tokens, PieceOf(of.grouped, piece, of.rows.numel()), of.rows, out});
  };
  if (of.ranks == nullptr) {
    ZEROTH_RETURN_IF_ERROR(piece_of(0, dweights));
    return dweights;
  }
  ZEROTH_RETURN_IF_ERROR(SumPieces(context, dweights, piece_of));
  ZEROTH_RETURN_IF_ERROR(of.ranks->Sum(dweights, kLabel));
  return dweights;
}

}  // namespace

absl::StatusOr<Value> Fp32RouterOp(Context& context, const Value& x, Parameter& weight,
                                   Parameter* bias) {
  const LinearPart part{&weight, bias};
  ZEROTH_RETURN_IF_ERROR(
      ValidateLinearInput(x.data, absl::MakeConstSpan(&part, 1), WeightLayout::kOutIn));
  ZEROTH_ASSIGN_OR_RETURN(
      Tensor logits,
      context.Empty(x.data.shape().WithLast(weight.shape().dim(0)), DType::kFloat32));
  // Products of 16-bit floats are exact in fp32, in which a matmul sums them.
  ZEROTH_RETURN_IF_ERROR(
      ComputeOrReuseMatmul(context, {Matrix(logits)}, /*is_read=*/true, [&]() -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(weight));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor added, bias == nullptr ? Tensor() : FullValues(*bias));
        return kernels::Gemm(
            context.kernels(),
            {.a = x.data, .b = values, .c = logits, .transpose_b = true, .bias = added});
      }));
  Value result = context.MakeValue(std::move(logits));
  RecordBackward(
      context, result, [&context, &weight, bias, x](const Tensor& dlogits) -> absl::Status {
        if (bias != nullptr && bias->requires_grad()) {
          ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, bias->TakeGradient());
          ZEROTH_RETURN_IF_ERROR(
              kernels::BiasGradient(context.kernels(), dlogits, slot.tensor, slot.accumulate));
        }
        if (weight.requires_grad()) {
          ZEROTH_ASSIGN_OR_RETURN(const Tensor in, CastTo(context, x.data, DType::kFloat32));
          ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, weight.TakeGradient());
          ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context.kernels(), {.a = dlogits,
                                                                   .b = in,
                                                                   .c = slot.tensor,
                                                                   .transpose_a = true,
                                                                   .accumulate = slot.accumulate}));
        }
        if (x.node == nullptr) return absl::OkStatus();
        ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(weight));
        ZEROTH_ASSIGN_OR_RETURN(const Tensor wide, CastTo(context, values, DType::kFloat32));
        ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *x.node, x.data));
        return kernels::Gemm(
            context.kernels(),
            {.a = dlogits, .b = wide, .c = slot.tensor, .accumulate = slot.accumulate});
      });
  return result;
}

absl::StatusOr<RoutedTokens> RouteOp(Context& context, const Value& logits, int64_t top_k,
                                     const RouteWeights& how, const Tensor& bias) {
  const int64_t experts = logits.data.dim(-1);
  if (top_k < 1 || top_k > experts) {
    return InvalidArgument("routing to ", top_k, " of ", experts, " experts, expected 1 to ",
                           experts);
  }
  const int64_t tokens = logits.data.numel() / experts;
  const Shape pairs({tokens, top_k});
  RouteArgs args;
  args.logits = logits.data;
  args.how = how;
  args.bias = bias;
  ZEROTH_ASSIGN_OR_RETURN(args.weights, context.Empty(pairs, DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(args.routing.experts, context.Empty(pairs, DType::kInt32));
  ZEROTH_ASSIGN_OR_RETURN(args.routing.rows, context.Empty(pairs, DType::kInt32));
  ZEROTH_ASSIGN_OR_RETURN(args.routing.offsets, context.Empty(Shape({experts + 1}), DType::kInt32));
  ZEROTH_RETURN_IF_ERROR(kernels::Route(context.kernels(), args));
  RoutedTokens routed{context.MakeValue(args.weights), args.routing};
  if (logits.node == nullptr) return routed;
  RecordBackward(
      context, routed.weights,
      [&context, args, node = logits.node](const Tensor& dweights) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(Tensor dlogits, context.EmptyLike(args.logits));
        ZEROTH_RETURN_IF_ERROR(kernels::RouteBackward(
            context.kernels(), {args.logits, args.how, args.routing.experts, dweights, dlogits}));
        return AddGradient(context, *node, std::move(dlogits));
      });
  return routed;
}

absl::Status BalanceOp(Context& context, const Value& logits, const Routing& routing,
                       float coefficient) {
  if (logits.data.shape().rank() != 3) {
    return InvalidArgument("balance of experts: logits ", logits.data.shape().ToString(),
                           ", expected [sequences, tokens, experts]");
  }
  const int64_t sequences = logits.data.dim(0);
  const int64_t length = logits.data.dim(1);
  const int64_t experts = logits.data.dim(2);
  const bool is_learned = context.recording() && logits.node != nullptr;
  if (logits.data.numel() == 0 || (!context.extra_loss().defined() && !is_learned)) {
    return absl::OkStatus();
  }
  // experts * f_e, times the loss's constant factor.
  const float scale =
      coefficient * static_cast<float>(experts) / static_cast<float>(sequences * length);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor counts,
                          context.Empty(Shape({sequences, experts}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(
      kernels::CountExperts(context.kernels(), {routing.experts, length, scale, counts}));
  if (context.extra_loss().defined()) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor p, Probabilities(context, logits.data));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor mean, context.EmptyLike(counts));
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context.kernels(), {.op = BasicOp::kMean, .a = p, .out = mean, .group = length}));
    // The sum of products, as the matmul of a row and a column.
    ZEROTH_RETURN_IF_ERROR(
        kernels::Gemm(context.kernels(), {.a = mean.Reshape(Shape({1, mean.numel()})),
                                          .b = counts.Reshape(Shape({mean.numel(), 1})),
                                          .c = context.extra_loss().Reshape(Shape({1, 1})),
                                          .accumulate = true}));
  }
  if (!is_learned) return absl::OkStatus();
  context.tape().Record([&context, logits, counts, length]() -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor p, Probabilities(context, logits.data));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor slope, context.Empty(p.shape(), DType::kFloat32));
    for (const BasicArgs& args :
         {BasicArgs{.op = BasicOp::kMeanBackward, .a = counts, .out = slope, .group = length},
          BasicArgs{.op = BasicOp::kSoftmaxBackward, .a = p, .b = slope, .out = slope},
          BasicArgs{.a = slope, .out = slope, .scalar = context.loss_scale()}}) {
      ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), args));
    }
    ZEROTH_ASSIGN_OR_RETURN(
        Tensor dlogits, CastTo(context, slope.Reshape(logits.data.shape()), logits.data.dtype()));
    return AddGradient(context, *logits.node, std::move(dlogits));
  });
  return absl::OkStatus();
}

absl::Status RouterZLossOp(Context& context, const Value& logits, float coefficient) {
  const int64_t tokens = logits.data.numel() / logits.data.dim(-1);
  if (tokens == 0) return absl::OkStatus();
  if (context.extra_loss().defined()) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor losses,
                            context.Empty(Shape({tokens, 1}), DType::kFloat32));
    ZEROTH_RETURN_IF_ERROR(
        kernels::RouterZLoss(context.kernels(), {logits.data, coefficient, losses, Tensor()}));
    ZEROTH_RETURN_IF_ERROR(
        kernels::Basic(context.kernels(), {.op = BasicOp::kMean,
                                           .a = losses,
                                           .out = context.extra_loss().Reshape(Shape({1, 1})),
                                           .accumulate = true,
                                           .group = tokens}));
  }
  if (!context.recording() || logits.node == nullptr) return absl::OkStatus();
  context.tape().Record([&context, logits, coefficient, tokens]() -> absl::Status {
    const float scale = context.loss_scale() * coefficient / static_cast<float>(tokens);
    ZEROTH_ASSIGN_OR_RETURN(Tensor dlogits, context.EmptyLike(logits.data));
    ZEROTH_RETURN_IF_ERROR(
        kernels::RouterZLoss(context.kernels(), {logits.data, scale, Tensor(), dlogits}));
    return AddGradient(context, *logits.node, std::move(dlogits));
  });
  return absl::OkStatus();
}

absl::StatusOr<Value> ScatterOp(Context& context, const Value& x, const Tensor& all,
                                const Routing& routing, TensorRanks* ranks) {
  const Shape shape_of_rows({routing.rows.numel(), all.dim(-1)});
  ZEROTH_ASSIGN_OR_RETURN(Tensor grouped, context.Empty(shape_of_rows, all.dtype()));
  ZEROTH_RETURN_IF_ERROR(
      kernels::Scatter(context.kernels(), {all, routing.rows, Tensor(), grouped}));
  Value result = context.MakeValue(std::move(grouped));
  if (x.node == nullptr) return result;
  RecordBackward(
      context, result,
      [&context, rows = routing.rows, shape = all.shape(), dtype = all.dtype(), ranks,
       node = x.node](const Tensor& dgrouped) -> absl::Status {
        if (ranks == nullptr) {
          ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *node, shape, dtype));
          return kernels::Combine(context.kernels(),
                                  {dgrouped, rows, Tensor(), slot.tensor, slot.accumulate});
        }
        const auto piece_of = [&](int piece, const Tensor& out) {
          return kernels::Combine(context.kernels(), {PieceOf(dgrouped, piece, rows.numel()), rows,
                                                      Tensor(), out, /*accumulate=*/false});
        };
        ZEROTH_ASSIGN_OR_RETURN(Tensor dx,
                                SumOfPiecesOverRanks(context, shape, dtype, kLabel, piece_of));
        return AddGradient(context, *node, std::move(dx));
      });
  return result;
}

absl::StatusOr<Value> CombineOp(Context& context, const Value& grouped, const RoutedTokens& routed,
                                const Tensor& like, TensorRanks* ranks) {
  const Combined of{grouped.data, routed.routing.rows, routed.weights.data, ranks};
  const auto piece_of = [&](int piece, const Tensor& out) {
    return kernels::Combine(context.kernels(), {PieceOf(of.grouped, piece, of.rows.numel()),
                                                of.rows, of.weights, out, /*accumulate=*/false});
  };
  Tensor tokens;
  if (ranks == nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(tokens, context.Empty(like.shape(), grouped.data.dtype()));
    ZEROTH_RETURN_IF_ERROR(piece_of(0, tokens));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(
        tokens, ComputeOrReuseSum(context, ShapeOfOwnRows(context, like.shape()), like.dtype(),
                                  /*is_read=*/true, [&] {
                                    return SumOfPiecesOverRanks(context, like.shape(), like.dtype(),
                                                                kLabel, piece_of);
                                  }));
  }
  Value result = context.MakeValue(std::move(tokens));
  RecordBackward(
      context, result,
      [&context, of, node = grouped.node,
       weights_node = routed.weights.node](const Tensor& dy) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor all,
                                of.ranks == nullptr ? dy : AllRows(context, dy, kLabel));
        if (weights_node != nullptr) {
          ZEROTH_ASSIGN_OR_RETURN(Tensor dweights, GradientOfWeights(context, of, all));
          ZEROTH_RETURN_IF_ERROR(AddGradient(context, *weights_node, std::move(dweights)));
        }
        if (node == nullptr) return absl::OkStatus();
        const Shape shape =
            of.ranks == nullptr ? of.grouped.shape() : Shape({of.rows.numel(), all.dim(-1)});
        ZEROTH_ASSIGN_OR_RETURN(Tensor dgrouped, context.Empty(shape, all.dtype()));
        ZEROTH_RETURN_IF_ERROR(
            kernels::Scatter(context.kernels(), {all, of.rows, of.weights, dgrouped}));
        return AddGradient(context, *node, std::move(dgrouped));
      });
  return result;
}

}  // namespace zeroth
