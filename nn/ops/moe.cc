// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/moe.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/kept_outputs.h"

namespace zeroth {
namespace {

int64_t OutFeatures(const ExpertWeights& weights) { return weights.front()->shape().dim(0); }

absl::Status AddWeightGradients(Context& context, const ExpertWeights& weights,
                                const Tensor& offsets, const Matrix& dy, const Tensor& x) {
  const auto is_trained = [](const Parameter* weight) { return weight->requires_grad(); };
  const auto trained = std::count_if(weights.begin(), weights.end(), is_trained);
  if (trained == 0) return absl::OkStatus();
  if (trained != static_cast<std::ptrdiff_t>(weights.size())) {
    return absl::FailedPreconditionError(absl::StrCat(
        weights.front()->name(), " and the same matrix of the other experts: ", trained, " of ",
        weights.size(), " are trainable; freeze all of them or none"));
  }
  GroupedGradientArgs args;
  args.offsets = offsets;
  args.a = dy;
  args.b = x;
  for (Parameter* weight : weights) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, weight->TakeGradient());
    args.c.push_back({slot.tensor, slot.accumulate});
  }
  return kernels::GroupedGradient(context.kernels(), args);
}

absl::StatusOr<std::vector<Tensor>> FullValuesOf(const ExpertWeights& weights) {
  std::vector<Tensor> tensors;
  for (const Parameter* weight : weights) {
    ZEROTH_ASSIGN_OR_RETURN(tensors.emplace_back(), FullValues(*weight));
  }
  return tensors;
}

// softmax(logits) of each token, [tokens, experts] in fp32.
absl::StatusOr<Tensor> Probabilities(Context& context, const Tensor& logits) {
  const Shape rows({logits.numel() / logits.dim(-1), logits.dim(-1)});
  ZEROTH_ASSIGN_OR_RETURN(Tensor p, context.Empty(rows, DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(kernels::Cast(context.kernels(), logits.Reshape(rows), p));
  BasicArgs args;
  args.op = BasicOp::kSoftmax;
  args.a = p;
  args.out = p;
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), args));
  return p;
}

}  // namespace

absl::StatusOr<RoutedTokens> RouteOp(Context& context, const Value& logits, int64_t top_k,
                                     bool normalize) {
  const int64_t experts = logits.data.dim(-1);
  if (top_k < 1 || top_k > experts) {
    return absl::InvalidArgumentError(
        absl::StrCat("routing to ", top_k, " of ", experts, " experts, expected 1 to ", experts));
  }
  const int64_t tokens = logits.data.numel() / experts;
  const Shape pairs({tokens, top_k});
  RouteArgs args;
  args.logits = logits.data;
  args.normalize = normalize;
  ZEROTH_ASSIGN_OR_RETURN(args.weights, context.Empty(pairs, DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(args.routing.experts, context.Empty(pairs, DType::kInt32));
  ZEROTH_ASSIGN_OR_RETURN(args.routing.rows, context.Empty(pairs, DType::kInt32));
  ZEROTH_ASSIGN_OR_RETURN(args.routing.offsets, context.Empty(Shape({experts + 1}), DType::kInt32));
  ZEROTH_RETURN_IF_ERROR(kernels::Route(context.kernels(), args));
  RoutedTokens routed{context.MakeValue(args.weights), args.routing};
  if (logits.node == nullptr) return routed;
  RecordBackward(context, routed.weights,
                 [&context, args, node = logits.node](const Tensor& dweights) -> absl::Status {
                   RouteBackwardArgs backward;
                   backward.logits = args.logits;
                   backward.normalize = args.normalize;
                   backward.experts = args.routing.experts;
                   backward.dweights = dweights;
                   ZEROTH_ASSIGN_OR_RETURN(backward.dlogits,
                                           context.Empty(args.logits.shape(), args.logits.dtype()));
                   ZEROTH_RETURN_IF_ERROR(kernels::RouteBackward(context.kernels(), backward));
                   return AddGradient(context, *node, std::move(backward.dlogits));
                 });
  return routed;
}

absl::Status BalanceOp(Context& context, const Value& logits, const Routing& routing,
                       float coefficient) {
  if (logits.data.shape().rank() != 3) {
    return absl::InvalidArgumentError(absl::StrCat("balance of experts: logits ",
                                                   logits.data.shape().ToString(),
                                                   ", expected [sequences, tokens, experts]"));
  }
  const int64_t sequences = logits.data.dim(0);
  const int64_t length = logits.data.dim(1);
  const int64_t experts = logits.data.dim(2);
  const bool is_learned = context.recording() && logits.node != nullptr;
  if (logits.data.numel() == 0 || (!context.extra_loss().defined() && !is_learned)) {
    return absl::OkStatus();
  }
  // experts * f_e, times what the loss has in front.
  CountExpertsArgs count;
  count.experts = routing.experts;
  count.sequence = length;
  count.scale = coefficient * static_cast<float>(experts) / static_cast<float>(sequences * length);
  ZEROTH_ASSIGN_OR_RETURN(count.counts,
                          context.Empty(Shape({sequences, experts}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(kernels::CountExperts(context.kernels(), count));
  if (context.extra_loss().defined()) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor p, Probabilities(context, logits.data));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor mean,
                            context.Empty(count.counts.shape(), DType::kFloat32));
    BasicArgs basic;
    basic.op = BasicOp::kMean;
    basic.a = p;
    basic.out = mean;
    basic.group = length;
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), basic));
    // The sum of products, as one of a row and a column.
    GemmArgs product;
    product.a = mean.Reshape(Shape({1, mean.numel()}));
    product.b = count.counts.Reshape(Shape({mean.numel(), 1}));
    product.c = context.extra_loss().Reshape(Shape({1, 1}));
    product.accumulate = true;
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context.kernels(), product));
  }
  if (!is_learned) return absl::OkStatus();
  context.tape().Record([&context, logits, counts = count.counts, length]() -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor p, Probabilities(context, logits.data));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor slope, context.Empty(p.shape(), DType::kFloat32));
    const auto run = [&](BasicOp op, const Tensor& a, const Tensor& b, float scalar) {
      BasicArgs args;
      args.op = op;
      args.a = a;
      if (b.defined()) args.b = b;
      args.out = slope;
      args.scalar = scalar;
      args.group = op == BasicOp::kMeanBackward ? length : 1;
      return kernels::Basic(context.kernels(), args);
    };
    ZEROTH_RETURN_IF_ERROR(run(BasicOp::kMeanBackward, counts, Tensor(), 1));
    ZEROTH_RETURN_IF_ERROR(run(BasicOp::kSoftmaxBackward, p, slope, 1));
    ZEROTH_RETURN_IF_ERROR(run(BasicOp::kScale, slope, Tensor(), context.loss_scale()));
    ZEROTH_ASSIGN_OR_RETURN(Tensor dlogits,
                            context.Empty(logits.data.shape(), logits.data.dtype()));
    ZEROTH_RETURN_IF_ERROR(
        kernels::Cast(context.kernels(), slope.Reshape(dlogits.shape()), dlogits));
    return AddGradient(context, *logits.node, std::move(dlogits));
  });
  return absl::OkStatus();
}

absl::StatusOr<Value> ScatterOp(Context& context, const Value& x, const Routing& routing) {
  ScatterArgs args;
  args.tokens = x.data;
  args.rows = routing.rows;
  const Shape shape({routing.rows.numel(), x.data.dim(-1)});
  ZEROTH_ASSIGN_OR_RETURN(args.grouped, context.Empty(shape, x.data.dtype()));
  ZEROTH_RETURN_IF_ERROR(kernels::Scatter(context.kernels(), args));
  Value result = context.MakeValue(args.grouped);
  if (x.node == nullptr) return result;
  RecordBackward(context, result,
                 [&context, rows = args.rows, shape = x.data.shape(), dtype = x.data.dtype(),
                  node = x.node](const Tensor& dgrouped) -> absl::Status {
                   ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot,
                                           TakeGradient(context, *node, shape, dtype));
                   return kernels::Combine(
                       context.kernels(), {dgrouped, rows, Tensor(), slot.tensor, slot.accumulate});
                 });
  return result;
}

absl::StatusOr<Value> CombineOp(Context& context, const Value& grouped, const RoutedTokens& routed,
                                const Shape& shape) {
  CombineArgs args;
  args.grouped = grouped.data;
  args.rows = routed.routing.rows;
  args.weights = routed.weights.data;
  ZEROTH_ASSIGN_OR_RETURN(args.tokens, context.Empty(shape, grouped.data.dtype()));
  ZEROTH_RETURN_IF_ERROR(kernels::Combine(context.kernels(), args));
  Value result = context.MakeValue(args.tokens);
  RecordBackward(
      context, result,
      [&context, grouped_data = args.grouped, rows = args.rows, weights = args.weights,
       node = grouped.node, weights_node = routed.weights.node](const Tensor& dy) -> absl::Status {
        if (weights_node != nullptr) {
          ZEROTH_ASSIGN_OR_RETURN(Tensor dweights, context.Empty(weights.shape(), DType::kFloat32));
          ZEROTH_RETURN_IF_ERROR(
              kernels::RowDots(context.kernels(), {dy, grouped_data, rows, dweights}));
          ZEROTH_RETURN_IF_ERROR(AddGradient(context, *weights_node, std::move(dweights)));
        }
        if (node == nullptr) return absl::OkStatus();
        ZEROTH_ASSIGN_OR_RETURN(Tensor dgrouped,
                                context.Empty(grouped_data.shape(), grouped_data.dtype()));
        ZEROTH_RETURN_IF_ERROR(kernels::Scatter(context.kernels(), {dy, rows, weights, dgrouped}));
        return AddGradient(context, *node, std::move(dgrouped));
      });
  return result;
}

absl::StatusOr<Value> GroupedLinearOp(Context& context, const Value& grouped, const Tensor& offsets,
                                      const std::vector<ExpertWeights>& projections) {
  const Tensor& x = grouped.data;
  int64_t out = 0;
  for (const ExpertWeights& weights : projections) out += OutFeatures(weights);
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.Empty(Shape({x.dim(0), out}), x.dtype()));
  int64_t column = 0;
  for (const ExpertWeights& weights : projections) {
    GroupedGemmArgs gemm;
    gemm.offsets = offsets;
    gemm.a = x;
    ZEROTH_ASSIGN_OR_RETURN(gemm.b, FullValuesOf(weights));
    gemm.transpose_b = true;
    gemm.c = Matrix(y).Columns(column, OutFeatures(weights));
    const absl::Status made = MakeOrTakeProduct(
        context, {gemm.c}, [&] { return kernels::GroupedGemm(context.kernels(), gemm); });
    ZEROTH_RETURN_IF_ERROR_WITH(made, weights.front()->name());
    column += OutFeatures(weights);
  }
  Value result = context.MakeValue(std::move(y));
  RecordBackward(
      context, result,
      [&context, x, node = grouped.node, offsets, projections](const Tensor& dy) -> absl::Status {
        int64_t first = 0;
        for (const ExpertWeights& weights : projections) {
          const Matrix part = Matrix(dy).Columns(first, OutFeatures(weights));
          first += OutFeatures(weights);
          ZEROTH_RETURN_IF_ERROR(AddWeightGradients(context, weights, offsets, part, x));
          if (node == nullptr) continue;
          ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *node, x));
          GroupedGemmArgs gemm;
          gemm.offsets = offsets;
          gemm.a = part;
          ZEROTH_ASSIGN_OR_RETURN(gemm.b, FullValuesOf(weights));
          gemm.c = slot.tensor;
          gemm.accumulate = slot.accumulate;
          ZEROTH_RETURN_IF_ERROR(kernels::GroupedGemm(context.kernels(), gemm));
        }
        return absl::OkStatus();
      });
  return result;
}

}  // namespace zeroth
