// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/pointwise.h"

#include <array>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

absl::StatusOr<Value> CastOp(Context& context, const Value& x, DType dtype) {
  if (x.data.dtype() == dtype) return x;
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, CastTo(context, x.data, dtype));
  Value result = context.MakeValue(std::move(y));
  if (x.node == nullptr) return result;
  RecordBackward(context, result,
                 [&context, to = x.data.dtype(), node = x.node](const Tensor& dy) -> absl::Status {
                   ZEROTH_ASSIGN_OR_RETURN(Tensor dx, CastTo(context, dy, to));
                   return AddGradient(context, *node, std::move(dx));
                 });
  return result;
}

absl::StatusOr<Value> AddOp(Context& context, const Value& a, const Value& b, bool is_read) {
  if (a.data.shape() != b.data.shape()) {
    return InvalidArgument("add: shapes differ: ", a.data.shape().ToString(), " and ",
                           b.data.shape().ToString());
  }
  Tensor out = a.data;
  if (is_read) {
    ZEROTH_ASSIGN_OR_RETURN(out, context.EmptyLike(a.data));
    ZEROTH_RETURN_IF_ERROR(kernels::Add(context.kernels(), a.data, b.data, out));
  }
  Value result = context.MakeValue(std::move(out));
  RecordBackward(
      context, result,
      [&context, nodes = std::array{a.node, b.node}](const Tensor& dout) -> absl::Status {
        for (const auto& node : nodes) {
          if (node != nullptr) ZEROTH_RETURN_IF_ERROR(AddGradient(context, *node, dout));
        }
        return absl::OkStatus();
      });
  return result;
}

absl::StatusOr<Value> GeluOp(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.EmptyLike(x.data));
  ZEROTH_RETURN_IF_ERROR(kernels::Gelu(context.kernels(), x.data, y));
  Value result = context.MakeValue(std::move(y));
  if (x.node == nullptr) return result;
  RecordBackward(context, result, [&context, x](const Tensor& dy) -> absl::Status {
    Tensor dx = dy;
    // In place unless another node holds this gradient: `dy` and `dx` are two of the handles.
    if (dy.buffer().use_count() > 2) {
      ZEROTH_ASSIGN_OR_RETURN(dx, context.EmptyLike(x.data));
    }
    ZEROTH_RETURN_IF_ERROR(kernels::GeluBackward(context.kernels(), x.data, dy, dx));
    return AddGradient(context, *x.node, std::move(dx));
  });
  return result;
}

absl::StatusOr<Value> SwiGluOp(Context& context, const Value& gate_up, float limit) {
  const Shape& shape = gate_up.data.shape();
  if (shape.rank() < 1 || shape.dim(-1) % 2 != 0) {
    return InvalidArgument("swiglu: input ", shape.ToString(),
                           ", expected an even last dimension: gate and up side by side");
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor out,
                          context.Empty(shape.WithLast(shape.dim(-1) / 2), gate_up.data.dtype()));
  ZEROTH_RETURN_IF_ERROR(kernels::SwiGlu(context.kernels(), gate_up.data, out, limit));
  Value result = context.MakeValue(std::move(out));
  if (gate_up.node == nullptr) return result;
  RecordBackward(
      context, result, [&context, x = gate_up, limit](const Tensor& dout) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(Tensor dx, context.EmptyLike(x.data));
        ZEROTH_RETURN_IF_ERROR(kernels::SwiGluBackward(context.kernels(), x.data, dout, dx, limit));
        return AddGradient(context, *x.node, std::move(dx));
      });
  return result;
}

}  // namespace zeroth
