// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/pointwise.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

absl::StatusOr<Value> CastOp(Context& context, const Value& x, DType dtype) {
  if (x.data.dtype() == dtype) return x;
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.Empty(x.data.shape(), dtype));
  ZEROTH_RETURN_IF_ERROR(kernels::Cast(context.kernels(), x.data, y));
  Value result = context.MakeValue(std::move(y));
  if (context.recording() && x.node != nullptr) {
    context.tape().Record([&context, dtype = x.data.dtype(), x_node = x.node,
                           y_node = result.node]() -> absl::Status {
      if (!y_node->grad.defined()) return absl::OkStatus();
      const Tensor dy = std::exchange(y_node->grad, Tensor());
      ZEROTH_ASSIGN_OR_RETURN(Tensor dx, context.Empty(dy.shape(), dtype));
      ZEROTH_RETURN_IF_ERROR(kernels::Cast(context.kernels(), dy, dx));
      return AddGradient(context, *x_node, std::move(dx));
    });
  }
  return result;
}

absl::StatusOr<Value> AddOp(Context& context, const Value& a, const Value& b) {
  if (a.data.shape() != b.data.shape()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "add: shapes differ: ", a.data.shape().ToString(), " and ", b.data.shape().ToString()));
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor out, context.Empty(a.data.shape(), a.data.dtype()));
  ZEROTH_RETURN_IF_ERROR(kernels::Add(context.kernels(), a.data, b.data, out));
  Value result = context.MakeValue(std::move(out));
  if (context.recording()) {
    context.tape().Record(
        [&context, a_node = a.node, b_node = b.node, out_node = result.node]() -> absl::Status {
          if (!out_node->grad.defined()) return absl::OkStatus();
          Tensor grad = std::exchange(out_node->grad, Tensor());
          if (a_node != nullptr) ZEROTH_RETURN_IF_ERROR(AddGradient(context, *a_node, grad));
          if (b_node != nullptr)
            ZEROTH_RETURN_IF_ERROR(AddGradient(context, *b_node, std::move(grad)));
          return absl::OkStatus();
        });
  }
  return result;
}

absl::StatusOr<Value> GeluOp(Context& context, const Value& x) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.Empty(x.data.shape(), x.data.dtype()));
  ZEROTH_RETURN_IF_ERROR(kernels::Gelu(context.kernels(), x.data, y));
  Value result = context.MakeValue(std::move(y));
  if (context.recording() && x.node != nullptr) {
    context.tape().Record(
        [&context, x_data = x.data, x_node = x.node, y_node = result.node]() -> absl::Status {
          if (!y_node->grad.defined()) return absl::OkStatus();
          Tensor dy = std::exchange(y_node->grad, Tensor());
          Tensor dx = dy;
          // In place unless somebody else reads this gradient; this function holds two of the
          // handles.
          if (dy.buffer().use_count() > 2) {
            ZEROTH_ASSIGN_OR_RETURN(dx, context.Empty(x_data.shape(), x_data.dtype()));
          }
          ZEROTH_RETURN_IF_ERROR(kernels::GeluBackward(context.kernels(), x_data, dy, dx));
          dy = Tensor();
          return AddGradient(context, *x_node, std::move(dx));
        });
  }
  return result;
}

absl::StatusOr<Value> SwiGluOp(Context& context, const Value& gate_up) {
  const Shape& shape = gate_up.data.shape();
  if (shape.rank() < 1 || shape.dim(-1) % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("swiglu: input ", shape.ToString(),
                     ", expected an even last dimension: gate and up side by side"));
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor out,
                          context.Empty(shape.WithLast(shape.dim(-1) / 2), gate_up.data.dtype()));
  ZEROTH_RETURN_IF_ERROR(kernels::SwiGlu(context.kernels(), gate_up.data, out));
  Value result = context.MakeValue(std::move(out));
  if (context.recording() && gate_up.node != nullptr) {
    context.tape().Record([&context, data = gate_up.data, node = gate_up.node,
                           out_node = result.node]() -> absl::Status {
      if (!out_node->grad.defined()) return absl::OkStatus();
      ZEROTH_ASSIGN_OR_RETURN(Tensor grad, context.Empty(data.shape(), data.dtype()));
      ZEROTH_RETURN_IF_ERROR(
          kernels::SwiGluBackward(context.kernels(), data, out_node->grad, grad));
      return AddGradient(context, *node, std::move(grad));
    });
  }
  return result;
}

}  // namespace zeroth
