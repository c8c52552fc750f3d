// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/embedding.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"
#include "zeroth/nn/ops/divided.h"

namespace zeroth {
namespace {

// `tokens` index the rows of this rank's part of the table.
absl::Status Backward(Context& context, const Tensor& tokens, Parameter& table,
                      Parameter* positions, const Tensor& dout) {
  if (table.requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, table.TakeGradient());
    ZEROTH_RETURN_IF_ERROR(kernels::EmbeddingBackward(context.kernels(), tokens, dout, slot.tensor,
                                                      slot.accumulate, IsDivided(table)));
  }
  if (positions != nullptr && positions->requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, positions->TakeGradient());
    ZEROTH_RETURN_IF_ERROR(
        kernels::PositionBackward(context.kernels(), dout, slot.tensor, slot.accumulate));
  }
  return absl::OkStatus();
}

// Returns the tokens as row indices into this rank's part of the table.
absl::StatusOr<Tensor> LocalTokens(Context& context, const Tensor& tokens, const Parameter& table) {
  if (!IsDivided(table)) return tokens;
  ZEROTH_RETURN_IF_ERROR(RanksOf(context, table).status());
  const int64_t vocab = table.global_shape().dim(0);
  const int64_t first = BeginOfShare(vocab, table.part()->index, table.part()->count);
  ZEROTH_ASSIGN_OR_RETURN(Tensor local, context.Empty(tokens.shape(), DType::kInt32));
  ZEROTH_RETURN_IF_ERROR_WITH(
      kernels::LocalIds(context.kernels(),
                        {tokens, first, table.shape().dim(0), vocab, local, Tensor()}),
      table.name());
  return local;
}

}  // namespace

absl::StatusOr<Value> EmbeddingOp(Context& context, const Tensor& tokens, Parameter& table,
                                  Parameter* positions) {
  if (tokens.shape().rank() != 2 || tokens.dtype() != DType::kInt32) {
    return InvalidArgument("embedding '", table.name(), "': tokens are ", DTypeName(tokens.dtype()),
                           " ", tokens.shape().ToString(), ", expected int32 [batch, seq]");
  }
  const int64_t first = context.first_position();
  if (positions != nullptr && first + tokens.dim(1) > positions->shape().dim(0)) {
    return InvalidArgument("embedding '", table.name(), "': sequence length ",
                           first + tokens.dim(1), " exceeds the model's ",
                           positions->shape().dim(0), " positions");
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor table_values, FullValues(table));
  Tensor position_values;
  const bool is_divided = IsDivided(table);
  // The results of a divided table's ranks are summed, so only one rank adds positions.
  if (positions != nullptr && (!is_divided || table.part()->index == 0)) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor all, FullValues(*positions));
    position_values = all.Rows(first, all.dim(0));
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor local, LocalTokens(context, tokens, table));
  ZEROTH_ASSIGN_OR_RETURN(Tensor out,
                          context.Empty(Shape({tokens.dim(0), tokens.dim(1), table.shape().dim(1)}),
                                        table_values.dtype()));
  ZEROTH_RETURN_IF_ERROR_WITH(
      kernels::Embedding(context.kernels(), local, table_values, position_values, out, is_divided),
      table.name());
  if (is_divided) {
    ZEROTH_ASSIGN_OR_RETURN(out, SumOverRanks(context, out, table.name()));
  }
  Value result = context.MakeValue(std::move(out));
  RecordBackward(
      context, result,
      [&context, &table, positions, local, is_divided](const Tensor& dout) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor all,
                                is_divided ? AllRows(context, dout, table.name()) : dout);
        return Backward(context, local, table, positions, all);
      });
  return result;
}

}  // namespace zeroth
