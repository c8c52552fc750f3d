// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/divided.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth {

absl::StatusOr<TensorRanks*> RanksOf(Context& context, const Parameter& parameter) {
  TensorRanks* const ranks = context.tensor_ranks();
  if (ranks != nullptr && ranks->size() == parameter.part()->count) return ranks;
  return FailedPrecondition(
      "parameter '", parameter.name(), "' is part ", parameter.part()->index, " of ",
      parameter.part()->count, ", but the context has ",
      ranks == nullptr ? "no tensor ranks" : absl::StrCat(ranks->size(), " tensor ranks"),
      "; create the ShardedModule with the TensorParallelOptions that the model was divided by");
}

Shape ShapeOfAllRows(const Context& context, const Shape& shape) {
  if (!context.rows_are_shared()) return shape;
  return shape.With(1, shape.dim(1) * context.tensor_ranks()->size());
}

Shape ShapeOfOwnRows(const Context& context, const Shape& shape) {
  if (!context.rows_are_shared()) return shape;
  return shape.With(1, shape.dim(1) / context.tensor_ranks()->size());
}

absl::StatusOr<Tensor> AllRows(Context& context, const Tensor& x, absl::string_view label,
                               const TensorRanks::OverlappedWork& overlapped) {
  if (!context.rows_are_shared()) {
    if (overlapped != nullptr) ZEROTH_RETURN_IF_ERROR(overlapped());
    return x;
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor all, context.Empty(ShapeOfAllRows(context, x.shape()), x.dtype()));
  ZEROTH_RETURN_IF_ERROR(context.tensor_ranks()->Gather(x, all, label, overlapped));
  return all;
}

absl::StatusOr<Value> AllRowsOp(Context& context, const Value& x, absl::string_view label) {
  if (!context.rows_are_shared()) return x;
  ZEROTH_ASSIGN_OR_RETURN(Tensor all, AllRows(context, x.data, label));
  Value result = context.MakeValue(std::move(all));
  RecordBackward(context, result,
                 [&context, node = x.node, shape = x.data.shape()](const Tensor& dall) {
                   if (node == nullptr) return absl::OkStatus();
                   const int64_t first = context.tensor_ranks()->index() * shape.numel();
                   return AddGradient(context, *node, dall.View(first, shape));
                 });
  return result;
}

absl::StatusOr<Tensor> SumOverRanks(Context& context, const Tensor& x, absl::string_view label,
                                    const TensorRanks::OverlappedWork& overlapped) {
  TensorRanks& ranks = *context.tensor_ranks();
  if (!context.rows_are_shared()) {
    ZEROTH_RETURN_IF_ERROR(ranks.Sum(x, label, overlapped));
    return x;
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor share,
                          context.Empty(ShapeOfOwnRows(context, x.shape()), x.dtype()));
  ZEROTH_RETURN_IF_ERROR(ranks.SumShare(x, share, label, overlapped));
  return share;
}

absl::StatusOr<Tensor> RoundedSumOverRanks(Context& context, const Tensor& x, DType dtype,
                                           absl::string_view label,
                                           const TensorRanks::OverlappedWork& overlapped) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, SumOverRanks(context, x, label, overlapped));
  return CastTo(context, sum, dtype);
}

absl::Status SumPieces(Context& context, int pieces, const Tensor& out,
                       const ComputePiece& compute_piece, int first) {
  if (pieces == 1) return compute_piece(first, out);
  const int half = pieces / 2;
  ZEROTH_RETURN_IF_ERROR(SumPieces(context, half, out, compute_piece, first));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor other, context.EmptyLike(out));
  ZEROTH_RETURN_IF_ERROR(SumPieces(context, half, other, compute_piece, first + half));
  return kernels::Add(context.kernels(), out, other, out);
}

absl::Status SumPieces(Context& context, const Tensor& out, const ComputePiece& compute_piece) {
  return SumPieces(context, context.tensor_ranks()->options().pieces(), out, compute_piece);
}

DType SumType(const Context& context, DType dtype) {
  const TensorRanks* const ranks = context.tensor_ranks();
  return ranks != nullptr && ranks->options().deterministic > 0 ? DType::kFloat32 : dtype;
}

absl::StatusOr<Tensor> LocalSumOfPieces(Context& context, const Shape& shape, DType dtype,
                                        const ComputePiece& compute_piece) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor sum, context.Empty(shape, SumType(context, dtype)));
  ZEROTH_RETURN_IF_ERROR(SumPieces(context, sum, compute_piece));
  return sum;
}

absl::StatusOr<Tensor> SumOfPiecesOverRanks(Context& context, const Shape& shape, DType dtype,
                                            absl::string_view label,
                                            const ComputePiece& compute_piece) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, LocalSumOfPieces(context, shape, dtype, compute_piece));
  return RoundedSumOverRanks(context, sum, dtype, label);
}

absl::StatusOr<GradientPlace> TakeGradientPlace(Context& context, Parameter& parameter,
                                                bool is_partial) {
  if (!parameter.requires_grad()) return GradientPlace();
  ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, parameter.TakeGradient());
  if (!is_partial) return GradientPlace{slot.tensor, slot.accumulate, std::nullopt};
  ZEROTH_ASSIGN_OR_RETURN(const Tensor separate, context.Empty(parameter.shape(), DType::kFloat32));
  return GradientPlace{separate, false, slot};
}

absl::Status FinishGradient(Context& context, const Parameter& parameter,
                            const GradientPlace& place) {
  if (!place.after_sum.has_value()) return absl::OkStatus();
  const Parameter::GradientSlot& slot = *place.after_sum;
  ZEROTH_RETURN_IF_ERROR(context.tensor_ranks()->Sum(place.tensor, parameter.name()));
  if (slot.accumulate) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor before, CastTo(context, slot.tensor, DType::kFloat32));
    ZEROTH_RETURN_IF_ERROR(kernels::Add(context.kernels(), before, place.tensor, place.tensor));
  }
  if (slot.tensor.dtype() != DType::kFloat32) {
    return kernels::Cast(context.kernels(), place.tensor, slot.tensor);
  }
  return context.device().Copy(slot.tensor.raw_data(), place.tensor.raw_data(), slot.tensor.bytes(),
                               context.device().compute_stream());
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
