// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/low_rank.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace {

struct Extent {
  int64_t in = -1;
  int64_t out = -1;
};

Extent ExtentOf(const Parameter& weight, WeightLayout layout) {
  const Shape& shape = weight.shape();
  if (shape.rank() != 2) return {};
  if (layout == WeightLayout::kInOut) return {shape.dim(0), shape.dim(1)};
  return {shape.dim(1), shape.dim(0)};
}

absl::Status Validate(const Value& x, const Value& y, const LowRankPart& part,
                      WeightLayout layout) {
  const Extent a = ExtentOf(*part.a, layout);
  const Extent b = ExtentOf(*part.b, layout);
  if (x.data.shape().rank() < 1 || y.data.shape().rank() < 1 || x.data.dim(-1) != a.in ||
      a.out != b.in || b.out < 0 || part.column + b.out > y.data.dim(-1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "low-rank product of '", part.a->name(), "' ", part.a->shape().ToString(), " and '",
        part.b->name(), "' ", part.b->shape().ToString(), " with input ", x.data.shape().ToString(),
        ", added at column ", part.column, " of ", y.data.shape().ToString(),
        ": expected the input's last dimension, the rank between them, "
        "and as many columns"));
  }
  return absl::OkStatus();
}

// c (+)= x w, or of a backward x w^T.
absl::Status Product(Context& context, const Matrix& x, const Parameter& weight, bool transpose,
                     const Matrix& c, bool accumulate) {
  GemmArgs gemm;
  gemm.a = x;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(weight));
  gemm.b = values;
  gemm.transpose_b = transpose;
  gemm.c = c;
  gemm.accumulate = accumulate;
  return Annotate(kernels::Gemm(context.kernels(), gemm), weight.name());
}

// dw (+)= x^T dy, as the weight is stored; nothing for a frozen one.
absl::Status WeightGradient(Context& context, const Matrix& x, const Matrix& dy, Parameter& weight,
                            WeightLayout layout) {
  if (!weight.requires_grad()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, weight.TakeGradient());
  GemmArgs gemm;
  gemm.a = layout == WeightLayout::kInOut ? x : dy;
  gemm.b = layout == WeightLayout::kInOut ? dy : x;
  gemm.transpose_a = true;
  gemm.c = slot.tensor;
  gemm.accumulate = slot.accumulate;
  return kernels::Gemm(context.kernels(), gemm);
}

// `inner` is scale * x a, which forward has made.
absl::Status Backward(Context& context, const LowRankPart& part, WeightLayout layout, float scale,
                      const Tensor& x, GradientNode* x_node, const Tensor& inner,
                      const Tensor& dy) {
  const bool in_out = layout == WeightLayout::kInOut;
  const Matrix dy_part = Matrix(dy).Columns(part.column, ExtentOf(*part.b, layout).out);
  ZEROTH_RETURN_IF_ERROR(WeightGradient(context, inner, dy_part, *part.b, layout));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor dinner, context.Empty(inner.shape(), inner.dtype()));
  ZEROTH_RETURN_IF_ERROR(Product(context, dy_part, *part.b, in_out, dinner, /*accumulate=*/false));
  ZEROTH_RETURN_IF_ERROR(kernels::Scale(context.kernels(), dinner, scale));
  ZEROTH_RETURN_IF_ERROR(WeightGradient(context, x, dinner, *part.a, layout));
  if (x_node == nullptr) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *x_node, x));
  return Product(context, dinner, *part.a, in_out, slot.tensor, slot.accumulate);
}

}  // namespace

absl::Status AddLowRankOp(Context& context, const Value& x, const Value& y,
                          absl::Span<const LowRankPart> parts, WeightLayout layout, float scale) {
  const bool out_in = layout == WeightLayout::kOutIn;
  for (const LowRankPart& part : parts) {
    ZEROTH_RETURN_IF_ERROR(Validate(x, y, part, layout));
    const int64_t rank = ExtentOf(*part.a, layout).out;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor inner,
                            context.Empty(x.data.shape().WithLast(rank), x.data.dtype()));
    ZEROTH_RETURN_IF_ERROR(Product(context, x.data, *part.a, out_in, inner, /*accumulate=*/false));
    ZEROTH_RETURN_IF_ERROR(kernels::Scale(context.kernels(), inner, scale));
    const Matrix target = Matrix(y.data).Columns(part.column, ExtentOf(*part.b, layout).out);
    ZEROTH_RETURN_IF_ERROR(Product(context, inner, *part.b, out_in, target, /*accumulate=*/true));
    if (!context.recording()) continue;
    context.tape().Record([&context, part, layout, scale, x_data = x.data, x_node = x.node,
                           y_node = y.node, inner]() -> absl::Status {
      if (!y_node->grad.defined()) return absl::OkStatus();  // nothing downstream used the result
      return Backward(context, part, layout, scale, x_data, x_node.get(), inner, y_node->grad);
    });
  }
  return absl::OkStatus();
}

}  // namespace zeroth
