// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The loss, and logits, of a head whose vocabulary is divided.

#include <algorithm>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"
#include "zeroth/nn/objective.h"
#include "zeroth/nn/ops/divided.h"

namespace zeroth {
namespace {

// Limit on a chunk's logits, over all ranks; and the fewest rows of a chunk.
constexpr int64_t kLogitsBytes = int64_t{64} << 20;
constexpr int64_t kLeastRows = 128;

// Depends on the whole vocabulary, so that chunks, and sums over them, do not depend on the number
// of ranks.
int64_t ChunkRows(int64_t rows, int64_t vocab) {
  const int64_t most =
      std::max(kLeastRows, kLogitsBytes / (vocab * static_cast<int64_t>(sizeof(float))));
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

// The state of the computation of one loss.
class DividedLoss {
 public:
  DividedLoss(Context& context, TensorRanks& ranks, const Tensor& hidden, Parameter& weight,
              float logit_cap)
      : context_(context),
        ranks_(ranks),
        hidden_(hidden.Reshape(Shape({hidden.numel() / hidden.dim(-1), hidden.dim(-1)}))),
        weight_(weight),
        logit_cap_(logit_cap),
        vocab_(weight.global_shape().dim(0)),
        first_(BeginOfShare(vocab_, ranks.index(), ranks.size())) {}

  absl::StatusOr<Tensor> Compute(const Tensor& targets);
  // This rank's summand of the gradient of loss_scale * loss by `hidden`; only while recording.
  const Tensor& dhidden() const { return dhidden_; }

 private:
  int64_t rows() const { return hidden_.dim(0); }
  int64_t dim() const { return hidden_.dim(1); }
  int64_t width() const { return values_.dim(0); }
  absl::Status PrepareGradients();
  absl::Status Chunks();
  absl::StatusOr<Tensor> ComputeObjective(TokenObjective& objective, const Tensor& targets);
  absl::Status Chunk(int64_t begin, int64_t count);
  absl::Status ChunkGradients(const Tensor& hidden, const Tensor& dlogits, int64_t begin);
  absl::Status StoreWeightGradient();
  // Returns the first column, within this rank's part, and the number of columns of one of its
  // pieces.
  std::pair<int64_t, int64_t> Piece(int piece) const {
    const int pieces = ranks_.options().pieces();
    const int all = pieces * ranks_.size();
    const int64_t begin = BeginOfShare(vocab_, ranks_.index() * pieces + piece, all) - first_;
    return {begin, BeginOfShare(vocab_, ranks_.index() * pieces + piece + 1, all) - first_ - begin};
  }

  Context& context_;
  TensorRanks& ranks_;
  const Tensor hidden_;
  Parameter& weight_;
  const float logit_cap_;  // 0: none
  const int64_t vocab_;
  const int64_t first_;
  Tensor values_;
  Tensor local_targets_;
  Tensor counted_;
  Tensor divisor_;  // of the sum of losses
  Tensor row_weights_;
  Tensor losses_;
  Tensor dhidden_;
  Parameter::GradientSlot slot_;  // undefined for a frozen weight
  Tensor weight_sum_;             // sum over chunks; the slot's tensor if that is fp32
  bool weight_sum_begun_ = false;
};

absl::StatusOr<Tensor> DividedLoss::Compute(const Tensor& targets) {
  ZEROTH_ASSIGN_OR_RETURN(values_, FullValues(weight_));
  ZEROTH_ASSIGN_OR_RETURN(local_targets_, context_.Empty(Shape({rows()}), DType::kInt32));
  ZEROTH_ASSIGN_OR_RETURN(counted_, context_.Empty(Shape({1}), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(losses_, context_.Empty(Shape({rows()}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR_WITH(
      kernels::LocalIds(context_.kernels(), {targets.Reshape(Shape({rows()})), first_, width(),
                                             vocab_, local_targets_, counted_}),
      "targets");
  divisor_ = context_.token_divisor().defined() ? context_.token_divisor() : counted_;
  if (context_.objective() != nullptr) return ComputeObjective(*context_.objective(), targets);
  if (context_.recording()) ZEROTH_RETURN_IF_ERROR(PrepareGradients());
  ZEROTH_RETURN_IF_ERROR(Chunks());
  ZEROTH_ASSIGN_OR_RETURN(const Tensor loss, context_.Empty(Shape({1}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(kernels::MeanLoss(context_.kernels(), {losses_, divisor_, loss}));
  return loss;
}

absl::StatusOr<Tensor> DividedLoss::ComputeObjective(TokenObjective& objective,
                                                     const Tensor& targets) {
  ZEROTH_RETURN_IF_ERROR(Chunks());
  ZEROTH_ASSIGN_OR_RETURN(const TokenObjective::Result result,
                          objective.Apply(context_, losses_.Reshape(targets.shape()), targets));
  if (!context_.recording()) return result.loss;
  row_weights_ = result.weights.Reshape(Shape({rows()}));
  ZEROTH_ASSIGN_OR_RETURN(divisor_, context_.Empty(Shape({1}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(
      context_.kernels(),
      {.op = BasicOp::kFill, .out = divisor_.Reshape(Shape({1, 1})), .scalar = 1.0f}));
  ZEROTH_RETURN_IF_ERROR(PrepareGradients());
  // The objective may keep the losses of the first pass.
  ZEROTH_ASSIGN_OR_RETURN(losses_, context_.Empty(Shape({rows()}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(Chunks());
  return result.loss;
}

absl::Status DividedLoss::Chunks() {
  const int64_t chunk = ChunkRows(rows(), vocab_);
  for (int64_t begin = 0; begin < rows(); begin += chunk) {
    ZEROTH_RETURN_IF_ERROR(Chunk(begin, std::min(chunk, rows() - begin)));
  }
  return slot_.tensor.defined() ? StoreWeightGradient() : absl::OkStatus();
}

absl::Status DividedLoss::PrepareGradients() {
  ZEROTH_ASSIGN_OR_RETURN(dhidden_,
                          context_.Empty(hidden_.shape(), SumType(context_, hidden_.dtype())));
  if (!weight_.requires_grad()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(slot_, weight_.TakeGradient());
  weight_sum_ = slot_.tensor;
  weight_sum_begun_ = slot_.accumulate;
  if (slot_.tensor.dtype() == DType::kFloat32) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(weight_sum_, context_.Empty(values_.shape(), DType::kFloat32));
  if (!slot_.accumulate) return absl::OkStatus();
  return kernels::Cast(context_.kernels(), slot_.tensor, weight_sum_);
}

absl::Status DividedLoss::Chunk(int64_t begin, int64_t count) {
  const Tensor hidden = hidden_.View(begin * dim(), Shape({count, dim()}));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor logits,
                          context_.Empty(Shape({count, width()}), DType::kFloat32));
  const int pieces = ranks_.options().pieces();
  for (int i = 0; i < pieces; ++i) {
    const auto [first, columns] = Piece(i);
    ZEROTH_RETURN_IF_ERROR_WITH(
        kernels::Gemm(context_.kernels(),
                      {.a = hidden,
                       .b = values_.View(first * dim(), Shape({columns, dim()})),
                       .c = Matrix(logits).Columns(first, columns),
                       .transpose_b = true}),
        weight_.name());
  }
  if (logit_cap_ > 0) {
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context_.kernels(),
        {.op = BasicOp::kSoftCap, .a = logits, .out = logits, .scalar = logit_cap_}));
  }
  const int64_t of_piece = count * kSoftmaxStatistics;
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor all,
      context_.Empty(Shape({pieces * ranks_.size(), count, kSoftmaxStatistics}), DType::kFloat32));
  const int64_t mine = ranks_.index() * pieces * of_piece;
  const Tensor targets = local_targets_.View(begin, Shape({count}));
  for (int i = 0; i < pieces; ++i) {
    const auto [first, columns] = Piece(i);
    ZEROTH_RETURN_IF_ERROR(kernels::SoftmaxStatistics(
        context_.kernels(), {logits, first, columns, targets,
                             all.View(mine + i * of_piece, Shape({count, kSoftmaxStatistics}))}));
  }
  ZEROTH_RETURN_IF_ERROR(
      ranks_.Gather(all.View(mine, Shape({pieces * of_piece})), all, "softmax statistics"));
  SoftmaxGradientArgs args;
  args.logits = logits;
  args.targets = targets;
  args.statistics = all;
  args.divisor = divisor_;
  if (row_weights_.defined()) args.row_weights = row_weights_.View(begin, Shape({count}));
  args.grad_scale = context_.loss_scale();
  args.logit_cap = logit_cap_;
  args.losses = losses_.View(begin, Shape({count}));
  if (dhidden_.defined() && hidden.dtype() == DType::kFloat32) {
    args.dlogits = logits;
  } else if (dhidden_.defined()) {
    ZEROTH_ASSIGN_OR_RETURN(args.dlogits, context_.Empty(logits.shape(), hidden.dtype()));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::SoftmaxGradient(context_.kernels(), args));
  return dhidden_.defined() ? ChunkGradients(hidden, args.dlogits, begin) : absl::OkStatus();
}

absl::Status DividedLoss::ChunkGradients(const Tensor& hidden, const Tensor& dlogits,
                                         int64_t begin) {
  const Tensor out = dhidden_.View(begin * dim(), hidden.shape());
  ZEROTH_RETURN_IF_ERROR(SumPieces(context_, out, [&](int piece, const Tensor& sum) {
    const auto [first, columns] = Piece(piece);
    return kernels::Gemm(context_.kernels(),
                         {.a = Matrix(dlogits).Columns(first, columns),
                          .b = values_.View(first * dim(), Shape({columns, dim()})),
                          .c = sum});
  }));
  if (!slot_.tensor.defined()) return absl::OkStatus();
  const bool accumulate = std::exchange(weight_sum_begun_, true);
  for (int i = 0; i < ranks_.options().pieces(); ++i) {
    const auto [first, columns] = Piece(i);
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(
        context_.kernels(), {.a = Matrix(dlogits).Columns(first, columns),
                             .b = hidden,
                             .c = weight_sum_.View(first * dim(), Shape({columns, dim()})),
                             .transpose_a = true,
                             .accumulate = accumulate}));
  }
  return absl::OkStatus();
}

absl::Status DividedLoss::StoreWeightGradient() {
  if (!weight_sum_begun_) {  // there was no chunk
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context_.kernels(), {.op = BasicOp::kFill, .out = weight_sum_, .scalar = 0.0f}));
  }
  if (slot_.tensor.dtype() == DType::kFloat32) return absl::OkStatus();
  return kernels::Cast(context_.kernels(), weight_sum_, slot_.tensor);
}

}  // namespace

absl::StatusOr<Value> DividedCrossEntropyOp(Context& context, const Value& hidden,
                                            Parameter& weight, const Tensor& targets,
                                            float logit_cap) {
  ZEROTH_ASSIGN_OR_RETURN(TensorRanks* const ranks, RanksOf(context, weight));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor all, AllRows(context, hidden.data, weight.name()));
  if (targets.dtype() != DType::kInt32 || targets.shape() != Shape({all.dim(0), all.dim(1)})) {
    return InvalidArgument("loss: targets are ", DTypeName(targets.dtype()), " ",
                           targets.shape().ToString(), ", expected int32 [", all.dim(0), ", ",
                           all.dim(1), "]");
  }
  DividedLoss divided(context, *ranks, all, weight, logit_cap);
  ZEROTH_ASSIGN_OR_RETURN(Tensor mean, divided.Compute(targets));
  Value loss = context.MakeEnd(std::move(mean));
  if (loss.node == nullptr || hidden.node == nullptr) return loss;
  ZEROTH_ASSIGN_OR_RETURN(Tensor dhidden,
                          RoundedSumOverRanks(context, divided.dhidden().Reshape(all.shape()),
                                              all.dtype(), weight.name()));
  context.tape().Record([&context, node = hidden.node, dhidden]() mutable {
    return AddGradient(context, *node, std::move(dhidden));
  });
  return loss;
}

absl::StatusOr<Tensor> DividedLogits(Context& context, const Tensor& hidden,
                                     const Parameter& weight) {
  ZEROTH_ASSIGN_OR_RETURN(TensorRanks* const ranks, RanksOf(context, weight));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(weight));
  const int64_t rows = hidden.dim(0);
  const int64_t vocab = weight.global_shape().dim(0);
  // Ranks' parts of the vocabulary may differ by one token, but a gather needs equal shares, so pad
  // them.
  const int64_t place = (vocab + ranks->size() - 1) / ranks->size();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor parts,
                          context.Empty(Shape({ranks->size(), rows, place}), DType::kFloat32));
  const Tensor mine = parts.View(ranks->index() * rows * place, Shape({rows, place}));
  ZEROTH_RETURN_IF_ERROR(
      kernels::Basic(context.kernels(), {.op = BasicOp::kFill, .out = mine, .scalar = 0.0f}));
  ZEROTH_RETURN_IF_ERROR(
      kernels::Gemm(context.kernels(), {.a = hidden,
                                        .b = values,
                                        .c = Matrix(mine).Columns(0, values.dim(0)),
                                        .transpose_b = true}));
  ZEROTH_RETURN_IF_ERROR(ranks->Gather(mine, parts, "logits"));
  ZEROTH_ASSIGN_OR_RETURN(Tensor logits, context.Empty(Shape({rows, vocab}), DType::kFloat32));
  for (int i = 0; i < ranks->size(); ++i) {
    const int64_t begin = BeginOfShare(vocab, i, ranks->size());
    const int64_t count = BeginOfShare(vocab, i + 1, ranks->size()) - begin;
    const Tensor part = parts.View(i * rows * place, Shape({rows, place}));
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context.kernels(),
        {.a = Matrix(part).Columns(0, count), .out = Matrix(logits).Columns(begin, count)}));
  }
  return logits;
}

}  // namespace zeroth
