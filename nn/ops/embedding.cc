// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/embedding.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace {

absl::Status Backward(Context& context, const Tensor& tokens, Parameter& table,
                      Parameter* positions, const Tensor& dout) {
  if (table.requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, table.TakeGradient());
    ZEROTH_RETURN_IF_ERROR(
        kernels::EmbeddingBackward(context.kernels(), tokens, dout, slot.tensor, slot.accumulate));
  }
  if (positions != nullptr && positions->requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, positions->TakeGradient());
    ZEROTH_RETURN_IF_ERROR(
        kernels::PositionBackward(context.kernels(), dout, slot.tensor, slot.accumulate));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Value> EmbeddingOp(Context& context, const Tensor& tokens, Parameter& table,
                                  Parameter* positions) {
  if (tokens.shape().rank() != 2 || tokens.dtype() != DType::kInt32) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding '", table.name(), "': tokens are ", DTypeName(tokens.dtype()), " ",
                     tokens.shape().ToString(), ", expected int32 [batch, seq]"));
  }
  if (positions != nullptr && tokens.dim(1) > positions->shape().dim(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding '", table.name(), "': sequence length ", tokens.dim(1),
                     " exceeds the model's ", positions->shape().dim(0), " positions"));
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor table_values, FullValues(table));
  Tensor position_values;
  if (positions != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(position_values, FullValues(*positions));
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor out,
                          context.Empty(Shape({tokens.dim(0), tokens.dim(1), table.shape().dim(1)}),
                                        table_values.dtype()));
  ZEROTH_RETURN_IF_ERROR_WITH(
      kernels::Embedding(context.kernels(), tokens, table_values, position_values, out),
      table.name());
  Value result = context.MakeValue(std::move(out));
  if (context.recording()) {
    context.tape().Record(
        [&context, &table, positions, tokens, out_node = result.node]() -> absl::Status {
          if (!out_node->grad.defined()) return absl::OkStatus();
          return Backward(context, tokens, table, positions, out_node->grad);
        });
  }
  return result;
}

}  // namespace zeroth
