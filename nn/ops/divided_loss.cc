// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The loss of a head whose vocabulary is divided, and the loss of a student.

#include <algorithm>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/divergence/divergence.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"
#include "zeroth/nn/distillation.h"
#include "zeroth/nn/logit_transform.h"
#include "zeroth/nn/objective.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/loss.h"

namespace zeroth {
namespace {

// The state of the computation of one loss.
class DividedLoss {
 public:
  // `ranks` is null for a weight that is not divided.
  DividedLoss(Context& context, TensorRanks* ranks, const Tensor& hidden, Parameter& weight,
              float logit_cap, const LogitTransform* transform)
      : context_(context),
        ranks_(ranks),
        hidden_(hidden.Reshape(Shape({hidden.numel() / hidden.dim(-1), hidden.dim(-1)}))),
        weight_(weight),
        logit_cap_(logit_cap),
        transform_(transform),
        vocab_(weight.global_shape().dim(0)),
        first_(BeginOfShare(vocab_, index(), size())) {}

  absl::StatusOr<Tensor> Compute(const Tensor& targets);
  // This rank's summand of the gradient of loss_scale * loss by `hidden`; only while recording.
  const Tensor& dhidden() const { return dhidden_; }

 private:
  int64_t rows() const { return hidden_.dim(0); }
  int64_t dim() const { return hidden_.dim(1); }
  int64_t columns() const { return weight_.shape().dim(0); }  // of the vocabulary, on this rank
  int64_t width() const { return columns() + padding_; }
  int index() const { return ranks_ == nullptr ? 0 : ranks_->index(); }
  int size() const { return ranks_ == nullptr ? 1 : ranks_->size(); }
  int pieces() const { return ranks_ == nullptr ? 1 : ranks_->options().pieces(); }
  absl::Status Prepare();
  // Copies [columns(), dim] to the first rows of `to`, [width(), dim], and zeros to the others.
  absl::Status Pad(const Tensor& from, const Tensor& to);
  // Returns the first columns() rows of `padded`, [width(), dim]: those without the padding.
  Tensor Unpadded(const Tensor& padded) const { return padded.View(0, Shape({columns(), dim()})); }
  absl::Status PrepareGradients();
  absl::Status Chunks();
  absl::StatusOr<Tensor> ComputeObjective(TokenObjective& objective, const Tensor& targets);
  absl::Status Chunk(int64_t begin, int64_t count);
  // Returns this rank's part of the logits of `head`, and its transform's inputs in `raw`.
  absl::StatusOr<Tensor> Logits(const HeadInputs& head, Tensor* raw = nullptr);
  // True if the teacher's logits are computed beside the student's.
  bool HasWholeTeacher() const {
    return context_.distillation() != nullptr && !context_.distillation()->ids.defined();
  }
  // The logits of `count` rows from `begin` on.
  struct ChunkLogits {
    int64_t begin = 0;
    Tensor student = {};
    Tensor teacher = {};  // undefined unless HasWholeTeacher()
    Tensor targets = {};
  };
  // Computes the statistics of one piece of a chunk's logits.
  absl::Status PieceStatistics(const ChunkLogits& chunk, int piece, const Tensor& place);
  // Computes the statistics of this rank's logits and gathers those of all: [parts, count, _].
  absl::StatusOr<Tensor> Statistics(const ChunkLogits& chunk);
  // Writes the losses of a chunk and, if it is defined, `dlogits`.
  absl::Status Losses(const ChunkLogits& chunk, const Tensor& statistics, const Tensor& dlogits);
  // Sets what the gradients of every kind of loss have in common.
  template <typename Args>
  Args GradientArgs(const ChunkLogits& chunk, const Tensor& statistics, const Tensor& dlogits) {
    Args args;
    args.logits = chunk.student;
    args.targets = chunk.targets;
    args.statistics = statistics;
    args.divisor = divisor_;
    args.grad_scale = context_.loss_scale();
    args.logit_cap = logit_cap_;
    args.padding = padding_;
    args.losses = losses_.View(chunk.begin, Shape({chunk.student.dim(0)}));
    args.dlogits = dlogits;
    return args;
  }
  // Returns the teacher's arguments for `count` rows from `begin` on. Call it only with
  // Context::distillation().
  TeacherArgs TeacherOf(int64_t begin, int64_t count) const;
  absl::Status ChunkGradients(const Tensor& hidden, const Tensor& dlogits, int64_t begin);
  absl::Status StoreWeightGradient();
  bool SumsInSlot() const { return padding_ == 0 && slot_.tensor.dtype() == DType::kFloat32; }
  // Returns a piece's first column, within this rank's part, and its number of columns.
  std::pair<int64_t, int64_t> Piece(int piece) const {
    const int64_t of_all = int64_t{pieces()} * size();
    const int64_t of_rank = int64_t{index()} * pieces() + piece;
    const int64_t begin = BeginOfShare(vocab_, of_rank, of_all) - first_;
    return {begin, BeginOfShare(vocab_, of_rank + 1, of_all) - first_ - begin};
  }
  // Like Piece, with the padding, which deterministic pieces do not have.
  std::pair<int64_t, int64_t> PaddedPiece(int piece) const {
    const auto [begin, count] = Piece(piece);
    return {begin, count + padding_};
  }

  Context& context_;
  TensorRanks* const ranks_;
  const Tensor hidden_;
  Parameter& weight_;
  const float logit_cap_;                  // 0: none
  const LogitTransform* const transform_;  // null: none
  const int64_t vocab_;
  const int64_t first_;
  int64_t chunk_rows_ = 0;
  int64_t padding_ = 0;  // columns of zeros behind this rank's part of the vocabulary
  Tensor values_;        // [width(), dim]
  Tensor local_targets_;
  Tensor counted_;
  Tensor divisor_;  // of the sum of losses
  Tensor row_weights_;
  Tensor losses_;
  Tensor dhidden_;
  Parameter::GradientSlot slot_;  // undefined for a frozen weight
  // Sum over chunks, [width(), dim]; the slot's tensor if that is fp32 and there is no padding.
  Tensor weight_sum_;
  bool weight_sum_begun_ = false;
};

absl::Status DividedLoss::Prepare() {
  ZEROTH_ASSIGN_OR_RETURN(
      const DividedLossPlan plan,
      kernels::PlanDividedLoss(context_.kernels(), rows(), dim(), vocab_,
                               1 + HasWholeTeacher() + (transform_ != nullptr)));
  chunk_rows_ = plan.chunk_rows;
  ZEROTH_ASSIGN_OR_RETURN(values_, FullValues(weight_));
  // Deterministic pieces are not padded: local targets do not account for padding between pieces,
  // and a piece must have the same bits alone as beside others. A student's head is not padded,
  // because its logits have the same columns as the teacher's.
  const int64_t beyond = columns() % plan.column_step;
  const bool deterministic = ranks_ != nullptr && ranks_->options().deterministic > 0;
  if (deterministic || beyond == 0 || HasWholeTeacher()) return absl::OkStatus();
  padding_ = plan.column_step - beyond;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor padded,
                          context_.Empty(Shape({width(), dim()}), values_.dtype()));
  ZEROTH_RETURN_IF_ERROR(Pad(values_, padded));
  values_ = padded;
  return absl::OkStatus();
}

absl::Status DividedLoss::Pad(const Tensor& from, const Tensor& to) {
  ZEROTH_RETURN_IF_ERROR(kernels::Cast(context_.kernels(), from, Unpadded(to)));
  if (padding_ == 0) return absl::OkStatus();
  return kernels::Basic(context_.kernels(),
                        {.op = BasicOp::kFill,
                         .out = to.View(columns() * dim(), Shape({padding_, dim()})),
                         .scalar = 0.0f});
}

absl::StatusOr<Tensor> DividedLoss::Compute(const Tensor& targets) {
  ZEROTH_RETURN_IF_ERROR(Prepare());
  ZEROTH_ASSIGN_OR_RETURN(local_targets_, context_.Empty(Shape({rows()}), DType::kInt32));
  ZEROTH_ASSIGN_OR_RETURN(counted_, context_.Empty(Shape({1}), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(losses_, context_.Empty(Shape({rows()}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR_WITH(
      kernels::LocalIds(context_.kernels(), {targets.Reshape(Shape({rows()})), first_, columns(),
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
  for (int64_t begin = 0; begin < rows(); begin += chunk_rows_) {
    ZEROTH_RETURN_IF_ERROR(Chunk(begin, std::min(chunk_rows_, rows() - begin)));
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
  if (SumsInSlot()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(weight_sum_, context_.Empty(values_.shape(), DType::kFloat32));
  return slot_.accumulate ? Pad(slot_.tensor, weight_sum_) : absl::OkStatus();
}

absl::StatusOr<Tensor> DividedLoss::Logits(const HeadInputs& head, Tensor* raw) {
  const int64_t dim = head.hidden.dim(1);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor logits,
                          context_.Empty(Shape({head.hidden.dim(0), width()}), DType::kFloat32));
  for (int i = 0; i < pieces(); ++i) {
    const auto [first, columns] = PaddedPiece(i);
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context_.kernels(),
                                         {.a = head.hidden,
                                          .b = head.weight.View(first * dim, Shape({columns, dim})),
                                          .c = Matrix(logits).Columns(first, columns),
                                          .transpose_b = true}));
  }
  Tensor out = logits;
  if (raw != nullptr && head.transform != nullptr) {
    *raw = logits;
    ZEROTH_ASSIGN_OR_RETURN(out, context_.EmptyLike(logits));
  }
  ZEROTH_RETURN_IF_ERROR(TransformLogits(context_, logits, head.logit_cap, head.transform, out));
  return out;
}

absl::Status DividedLoss::Chunk(int64_t begin, int64_t count) {
  const Tensor hidden = hidden_.View(begin * dim(), Shape({count, dim()}));
  ChunkLogits chunk = {.begin = begin, .targets = local_targets_.View(begin, Shape({count}))};
  Tensor raw;  // the student's logits before its transform, if gradients need them
  absl::StatusOr<Tensor> logits =
      Logits({hidden, values_, logit_cap_, transform_}, dhidden_.defined() ? &raw : nullptr);
  ZEROTH_RETURN_IF_ERROR_WITH(logits.status(), weight_.name());
  chunk.student = *std::move(logits);
  if (HasWholeTeacher()) {
    HeadInputs teacher = context_.distillation()->teacher;
    const int64_t width = teacher.hidden.dim(-1);
    teacher.hidden = teacher.hidden.View(begin * width, Shape({count, width}));
    logits = Logits(teacher);
    ZEROTH_RETURN_IF_ERROR_WITH(logits.status(), "the teacher's logits");
    chunk.teacher = *std::move(logits);
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor statistics, Statistics(chunk));
  Tensor dlogits;
  if (raw.defined() || (dhidden_.defined() && hidden.dtype() == DType::kFloat32)) {
    dlogits = chunk.student;
  } else if (dhidden_.defined()) {
    ZEROTH_ASSIGN_OR_RETURN(dlogits, context_.Empty(chunk.student.shape(), hidden.dtype()));
  }
  ZEROTH_RETURN_IF_ERROR(Losses(chunk, statistics, dlogits));
  if (raw.defined()) {
    // The exchange frees the raw logits before the cast allocates.
    ZEROTH_RETURN_IF_ERROR(transform_->Backward(context_, std::exchange(raw, {}), dlogits));
    ZEROTH_ASSIGN_OR_RETURN(dlogits, CastTo(context_, dlogits, hidden.dtype()));
  }
  return dhidden_.defined() ? ChunkGradients(hidden, dlogits, begin) : absl::OkStatus();
}

TeacherArgs DividedLoss::TeacherOf(int64_t begin, int64_t count) const {
  const Distillation& teacher = *context_.distillation();
  const int64_t k = teacher.ids.dim(-1);
  const auto rows_of = [&](const Tensor& all) { return all.View(begin * k, Shape({count, k})); };
  return {rows_of(teacher.ids), rows_of(teacher.log_probs), first_, teacher.options};
}

absl::Status DividedLoss::PieceStatistics(const ChunkLogits& chunk, int piece,
                                          const Tensor& place) {
  Kernels& kernels = context_.kernels();
  const auto [first, columns] = Piece(piece);
  const SoftmaxStatisticsArgs args = {chunk.student, first, columns, chunk.targets, place};
  const Distillation* const teacher = context_.distillation();
  if (teacher == nullptr) return kernels::SoftmaxStatistics(kernels, args);
  if (HasWholeTeacher()) {
    return kernels::DivergenceStatistics(kernels, {args, teacher->options, chunk.teacher});
  }
  return kernels::DistillStatistics(kernels, {args, TeacherOf(chunk.begin, chunk.student.dim(0))});
}

absl::StatusOr<Tensor> DividedLoss::Statistics(const ChunkLogits& chunk) {
  const int64_t count = chunk.student.dim(0);
  const int64_t numbers = HasWholeTeacher()                    ? kDivergenceStatistics
                          : context_.distillation() != nullptr ? kDistillStatistics
                                                               : kSoftmaxStatistics;
  const int64_t of_piece = count * numbers;
  ZEROTH_ASSIGN_OR_RETURN(
      Tensor all, context_.Empty(Shape({pieces() * size(), count, numbers}), DType::kFloat32));
  const int64_t mine = index() * pieces() * of_piece;
  for (int i = 0; i < pieces(); ++i) {
    ZEROTH_RETURN_IF_ERROR(
        PieceStatistics(chunk, i, all.View(mine + i * of_piece, Shape({count, numbers}))));
  }
  if (ranks_ != nullptr) {
    ZEROTH_RETURN_IF_ERROR(
        ranks_->Gather(all.View(mine, Shape({pieces() * of_piece})), all, "softmax statistics"));
  }
  return all;
}

absl::Status DividedLoss::Losses(const ChunkLogits& chunk, const Tensor& statistics,
                                 const Tensor& dlogits) {
  const int64_t count = chunk.student.dim(0);
  if (HasWholeTeacher()) {
    auto args = GradientArgs<DivergenceGradientArgs>(chunk, statistics, dlogits);
    args.options = context_.distillation()->options;
    args.teacher = chunk.teacher;
    return kernels::DivergenceGradient(context_.kernels(), args);
  }
  if (context_.distillation() != nullptr) {
    auto args = GradientArgs<DistillGradientArgs>(chunk, statistics, dlogits);
    args.teacher = TeacherOf(chunk.begin, count);
    return kernels::DistillGradient(context_.kernels(), args);
  }
  auto args = GradientArgs<SoftmaxGradientArgs>(chunk, statistics, dlogits);
  if (row_weights_.defined()) args.row_weights = row_weights_.View(chunk.begin, Shape({count}));
  return kernels::SoftmaxGradient(context_.kernels(), args);
}

absl::Status DividedLoss::ChunkGradients(const Tensor& hidden, const Tensor& dlogits,
                                         int64_t begin) {
  const Tensor out = dhidden_.View(begin * dim(), hidden.shape());
  ZEROTH_RETURN_IF_ERROR(SumPieces(context_, pieces(), out, [&](int piece, const Tensor& sum) {
    const auto [first, columns] = PaddedPiece(piece);
    return kernels::Gemm(context_.kernels(),
                         {.a = Matrix(dlogits).Columns(first, columns),
                          .b = values_.View(first * dim(), Shape({columns, dim()})),
                          .c = sum});
  }));
  if (!slot_.tensor.defined()) return absl::OkStatus();
  const bool accumulate = std::exchange(weight_sum_begun_, true);
  for (int i = 0; i < pieces(); ++i) {
    const auto [first, columns] = PaddedPiece(i);
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
  if (SumsInSlot()) return absl::OkStatus();
  return kernels::Cast(context_.kernels(), Unpadded(weight_sum_), slot_.tensor);
}

}  // namespace

absl::StatusOr<Value> DividedCrossEntropyOp(Context& context, const Value& hidden,
                                            Parameter& weight, const Tensor& targets,
                                            float logit_cap, const LogitTransform* transform) {
  const Distillation* const teacher = context.distillation();
  TensorRanks* ranks = nullptr;
  Tensor all = hidden.data;
  if (IsDivided(weight)) {
    ZEROTH_ASSIGN_OR_RETURN(ranks, RanksOf(context, weight));
    ZEROTH_ASSIGN_OR_RETURN(all, AllRows(context, hidden.data, weight.name()));
  }
  ZEROTH_RETURN_IF_ERROR(ExpectHead(all, weight, targets));
  if (teacher != nullptr && context.objective() != nullptr) {
    return absl::InvalidArgumentError(
        "loss: the context has both an objective and a teacher; expected one of them");
  }
  if (teacher != nullptr) ZEROTH_RETURN_IF_ERROR(ExpectTeacher(*teacher, all, weight));
  DividedLoss divided(context, ranks, all, weight, logit_cap, transform);
  ZEROTH_ASSIGN_OR_RETURN(Tensor mean, divided.Compute(targets));
  Value loss = context.MakeEnd(std::move(mean));
  if (loss.node == nullptr || hidden.node == nullptr) return loss;
  Tensor dhidden = divided.dhidden().Reshape(all.shape());
  if (ranks != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(dhidden,
                            RoundedSumOverRanks(context, dhidden, all.dtype(), weight.name()));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(dhidden, CastTo(context, dhidden, all.dtype()));
  }
  context.tape().Record([&context, node = hidden.node, dhidden]() mutable {
    return AddGradient(context, *node, std::move(dhidden));
  });
  return loss;
}

}  // namespace zeroth
