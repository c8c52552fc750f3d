// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/basic.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {
namespace {

// Runs `args` into a new tensor of `shape`.
absl::StatusOr<Value> Make(Context& context, const Shape& shape, BasicArgs args) {
  ZEROTH_ASSIGN_OR_RETURN(Tensor out, context.Empty(shape, args.a.tensor.dtype()));
  args.out = out;
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), args));
  return context.MakeValue(std::move(out));
}

// Adds the result of `args` to the gradient of an activation, if it has a node.
absl::Status Contribute(Context& context, GradientNode* node, const Shape& shape, BasicArgs args) {
  if (node == nullptr) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot,
                          TakeGradient(context, *node, shape, args.a.tensor.dtype()));
  args.out = slot.tensor;
  args.accumulate = slot.accumulate;
  return kernels::Basic(context.kernels(), args);
}

absl::Status ExpectSame(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      operation, ": shapes differ: ", a.shape().ToString(), " and ", b.shape().ToString()));
}

// A shape around one of its dimensions.
struct Axis {
  int64_t outer = 1;
  int64_t size = 0;
  int64_t inner = 1;

  // The whole tensor as a matrix in which a range along the dimension is a range of columns.
  Matrix Rows(const Tensor& x) const { return x.Reshape(Shape({outer, size * inner})); }
};

absl::StatusOr<Axis> AxisOf(const char* operation, const Shape& shape, int dim) {
  const int rank = shape.rank();
  if (dim < -rank || dim >= rank) {
    return absl::InvalidArgumentError(absl::StrCat(operation, ": dimension ", dim, " of ",
                                                   shape.ToString(), ", which has ", rank));
  }
  const int at = dim < 0 ? dim + rank : dim;
  Axis axis;
  for (int i = 0; i < at; ++i) axis.outer *= shape.dim(i);
  axis.size = shape.dim(at);
  for (int i = at + 1; i < rank; ++i) axis.inner *= shape.dim(i);
  return axis;
}

// `shape` with another size in one dimension, or without that dimension if `size` is negative.
Shape Resized(const Shape& shape, int dim, int64_t size) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  const auto at = dims.begin() + (dim < 0 ? dim + shape.rank() : dim);
  if (size < 0) {
    dims.erase(at);
  } else {
    *at = size;
  }
  return Shape(dims);
}

// The mean over the middle of [outer, size, inner], as `shape`.
absl::StatusOr<Value> MeanOver(Context& context, const Value& x, const Axis& axis,
                               const Shape& shape) {
  if (axis.size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("mean: ", x.data.shape().ToString(), " has nothing to take a mean of"));
  }
  const Shape rows({axis.outer * axis.size, axis.inner});
  const Shape means({axis.outer, axis.inner});
  ZEROTH_ASSIGN_OR_RETURN(
      Value y,
      Make(context, means, {.op = BasicOp::kMean, .a = x.data.Reshape(rows), .group = axis.size}));
  y.data = y.data.Reshape(shape);
  RecordBackward(context, y,
                 [&context, node = x.node, full = x.data.shape(), axis, rows,
                  means](const Tensor& dy) -> absl::Status {
                   if (node == nullptr) return absl::OkStatus();
                   ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot,
                                           TakeGradient(context, *node, full, dy.dtype()));
                   return kernels::Basic(context.kernels(), {.op = BasicOp::kMeanBackward,
                                                             .a = dy.Reshape(means),
                                                             .out = slot.tensor.Reshape(rows),
                                                             .accumulate = slot.accumulate,
                                                             .group = axis.size});
                 });
  return y;
}

// c (+)= op(a) op(b), one matrix of the leading dimensions after the other.
absl::Status Products(Context& context, const Tensor& a, bool transpose_a, const Tensor& b,
                      bool transpose_b, const Tensor& c, bool accumulate) {
  const auto matrix = [](const Tensor& x, int64_t i) {
    const Shape shape({x.dim(-2), x.dim(-1)});
    return x.View(i * shape.numel(), shape);
  };
  int64_t count = 1;
  for (int i = 0; i + 2 < c.shape().rank(); ++i) count *= c.dim(i);
  for (int64_t i = 0; i < count; ++i) {
    GemmArgs gemm;
    gemm.a = matrix(a, i);
    gemm.b = matrix(b, i);
    gemm.c = matrix(c, i);
    gemm.transpose_a = transpose_a;
    gemm.transpose_b = transpose_b;
    gemm.accumulate = accumulate;
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context.kernels(), gemm));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Value> MatmulOp(Context& context, const Value& a, const Value& b, bool transpose_a,
                               bool transpose_b) {
  const Shape& left = a.data.shape();
  const Shape& right = b.data.shape();
  const int rank = left.rank();
  bool fits = rank >= 2 && right.rank() == rank &&
              left.dim(transpose_a ? -2 : -1) == right.dim(transpose_b ? -1 : -2);
  for (int i = 0; fits && i + 2 < rank; ++i) fits = left.dim(i) == right.dim(i);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "matmul: ", left.ToString(), transpose_a ? " transposed" : "", " times ", right.ToString(),
        transpose_b ? " transposed" : "", ", expected [.., m, k] and [.., k, n]"));
  }
  const Shape shape = Resized(Resized(left, -2, left.dim(transpose_a ? -1 : -2)), -1,
                              right.dim(transpose_b ? -2 : -1));
  ZEROTH_ASSIGN_OR_RETURN(Tensor c, context.Empty(shape, a.data.dtype()));
  ZEROTH_RETURN_IF_ERROR(
      Products(context, a.data, transpose_a, b.data, transpose_b, c, /*accumulate=*/false));
  const Value y = context.MakeValue(std::move(c));
  RecordBackward(
      context, y, [&context, a, b, transpose_a, transpose_b](const Tensor& dy) -> absl::Status {
        if (a.node != nullptr) {  // dy op(b)^T, or its transpose
          ZEROTH_ASSIGN_OR_RETURN(const NodeSlot da, TakeGradient(context, *a.node, a.data));
          ZEROTH_RETURN_IF_ERROR(
              transpose_a
                  ? Products(context, b.data, transpose_b, dy, true, da.tensor, da.accumulate)
                  : Products(context, dy, false, b.data, !transpose_b, da.tensor, da.accumulate));
        }
        if (b.node == nullptr) return absl::OkStatus();
        ZEROTH_ASSIGN_OR_RETURN(const NodeSlot db, TakeGradient(context, *b.node, b.data));
        return transpose_b
                   ? Products(context, dy, true, a.data, transpose_a, db.tensor, db.accumulate)
                   : Products(context, a.data, !transpose_a, dy, false, db.tensor, db.accumulate);
      });
  return y;
}

absl::StatusOr<Value> MultiplyOp(Context& context, const Value& a, const Value& b) {
  ZEROTH_RETURN_IF_ERROR(ExpectSame("multiply", a.data, b.data));
  const Shape& shape = a.data.shape();
  ZEROTH_ASSIGN_OR_RETURN(
      const Value y, Make(context, shape, {.op = BasicOp::kMultiply, .a = a.data, .b = b.data}));
  RecordBackward(context, y, [&context, a, b, shape](const Tensor& dy) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(
        Contribute(context, a.node.get(), shape, {.op = BasicOp::kMultiply, .a = dy, .b = b.data}));
    return Contribute(context, b.node.get(), shape,
                      {.op = BasicOp::kMultiply, .a = dy, .b = a.data});
  });
  return y;
}

absl::StatusOr<Value> ScaleOp(Context& context, const Value& x, float factor) {
  ZEROTH_ASSIGN_OR_RETURN(
      const Value y,
      Make(context, x.data.shape(), {.op = BasicOp::kScale, .a = x.data, .scalar = factor}));
  RecordBackward(context, y, [&context, node = x.node, factor](const Tensor& dy) {
    return Contribute(context, node.get(), dy.shape(),
                      {.op = BasicOp::kScale, .a = dy, .scalar = factor});
  });
  return y;
}

absl::StatusOr<Value> ActivationOp(Context& context, const Value& x, ActivationFunction function) {
  BasicOp forward = BasicOp::kRelu;
  BasicOp backward = BasicOp::kReluBackward;
  switch (function) {
    case ActivationFunction::kGelu:
      return GeluOp(context, x);
    case ActivationFunction::kRelu:
      break;
    case ActivationFunction::kSilu:
      forward = BasicOp::kSilu;
      backward = BasicOp::kSiluBackward;
      break;
    case ActivationFunction::kTanh:
      forward = BasicOp::kTanh;
      backward = BasicOp::kTanhBackward;
      break;
    case ActivationFunction::kSigmoid:
      forward = BasicOp::kSigmoid;
      backward = BasicOp::kSigmoidBackward;
      break;
  }
  ZEROTH_ASSIGN_OR_RETURN(const Value y,
                          Make(context, x.data.shape(), {.op = forward, .a = x.data}));
  // All but SiLU go back from their result, which the next operation is likely to keep anyway.
  const Tensor& kept = function == ActivationFunction::kSilu ? x.data : y.data;
  RecordBackward(context, y, [&context, node = x.node, backward, kept](const Tensor& dy) {
    return Contribute(context, node.get(), dy.shape(), {.op = backward, .a = kept, .b = dy});
  });
  return y;
}

absl::StatusOr<Value> SoftmaxOp(Context& context, const Value& x) {
  if (x.data.shape().rank() < 1) {
    return absl::InvalidArgumentError("softmax: a scalar, expected at least one dimension");
  }
  ZEROTH_ASSIGN_OR_RETURN(const Value y,
                          Make(context, x.data.shape(), {.op = BasicOp::kSoftmax, .a = x.data}));
  RecordBackward(context, y, [&context, node = x.node, kept = y.data](const Tensor& dy) {
    return Contribute(context, node.get(), dy.shape(),
                      {.op = BasicOp::kSoftmaxBackward, .a = kept, .b = dy});
  });
  return y;
}

absl::StatusOr<Value> MeanOp(Context& context, const Value& x, int dim) {
  ZEROTH_ASSIGN_OR_RETURN(const Axis axis, AxisOf("mean", x.data.shape(), dim));
  return MeanOver(context, x, axis, Resized(x.data.shape(), dim, -1));
}

absl::StatusOr<Value> MeanOp(Context& context, const Value& x) {
  return MeanOver(context, x, {.size = x.data.numel()}, Shape({1}));
}

absl::StatusOr<Value> SliceOp(Context& context, const Value& x, int dim, int64_t begin,
                              int64_t count) {
  const Shape& shape = x.data.shape();
  ZEROTH_ASSIGN_OR_RETURN(const Axis axis, AxisOf("slice", shape, dim));
  if (begin < 0 || count < 0 || begin > axis.size - count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "slice: ", count, " from ", begin, " on along dimension ", dim, " of ", shape.ToString()));
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor out, context.Empty(Resized(shape, dim, count), x.data.dtype()));
  Axis part = axis;
  part.size = count;
  const int64_t column = begin * axis.inner;
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(
      context.kernels(),
      {.a = axis.Rows(x.data).Columns(column, count * axis.inner), .out = part.Rows(out)}));
  const Value y = context.MakeValue(std::move(out));
  RecordBackward(
      context, y,
      [&context, node = x.node, shape, axis, part, column](const Tensor& dy) -> absl::Status {
        if (node == nullptr) return absl::OkStatus();
        ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot,
                                TakeGradient(context, *node, shape, dy.dtype()));
        const Matrix whole = axis.Rows(slot.tensor);
        if (!slot.accumulate) {
          ZEROTH_RETURN_IF_ERROR(
              kernels::Basic(context.kernels(), {.op = BasicOp::kFill, .out = whole, .scalar = 0}));
        }
        return kernels::Basic(context.kernels(),
                              {.a = part.Rows(dy),
                               .out = whole.Columns(column, part.size * part.inner),
                               .accumulate = true});
      });
  return y;
}

absl::StatusOr<Value> ConcatOp(Context& context, absl::Span<const Value> parts, int dim) {
  if (parts.empty()) return absl::InvalidArgumentError("concat: no parts");
  const Shape& first = parts[0].data.shape();
  ZEROTH_ASSIGN_OR_RETURN(Axis whole, AxisOf("concat", first, dim));
  std::vector<Axis> axes;
  whole.size = 0;
  for (const Value& part : parts) {
    const Shape& shape = part.data.shape();
    ZEROTH_ASSIGN_OR_RETURN(axes.emplace_back(), AxisOf("concat", shape, dim));
    if (shape.rank() != first.rank() || Resized(shape, dim, 0) != Resized(first, dim, 0)) {
      return absl::InvalidArgumentError(absl::StrCat("concat: ", shape.ToString(), " beside ",
                                                     first.ToString(), " along dimension ", dim,
                                                     ", expected the same other dimensions"));
    }
    whole.size += axes.back().size;
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor out,
                          context.Empty(Resized(first, dim, whole.size), parts[0].data.dtype()));
  int64_t column = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t width = axes[i].size * axes[i].inner;
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context.kernels(),
        {.a = axes[i].Rows(parts[i].data), .out = whole.Rows(out).Columns(column, width)}));
    column += width;
  }
  const Value y = context.MakeValue(std::move(out));
  std::vector<std::shared_ptr<GradientNode>> nodes;
  std::vector<Shape> shapes;
  for (const Value& part : parts) {
    nodes.push_back(part.node);
    shapes.push_back(part.data.shape());
  }
  RecordBackward(
      context, y, [&context, nodes, shapes, axes, whole](const Tensor& dy) -> absl::Status {
        int64_t from = 0;
        for (size_t i = 0; i < nodes.size(); ++i) {
          const int64_t width = axes[i].size * axes[i].inner;
          const Matrix part = whole.Rows(dy).Columns(from, width);
          from += width;
          if (nodes[i] == nullptr) continue;
          ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot,
                                  TakeGradient(context, *nodes[i], shapes[i], dy.dtype()));
          ZEROTH_RETURN_IF_ERROR(kernels::Basic(
              context.kernels(),
              {.a = part, .out = axes[i].Rows(slot.tensor), .accumulate = slot.accumulate}));
        }
        return absl::OkStatus();
      });
  return y;
}

absl::StatusOr<Value> ReshapeOp(Context& context, const Value& x, const Shape& shape) {
  if (shape.numel() != x.data.numel()) {
    return absl::InvalidArgumentError(absl::StrCat("reshape: ", x.data.shape().ToString(), " to ",
                                                   shape.ToString(),
                                                   ", expected as many elements"));
  }
  const Value y = context.MakeValue(x.data.Reshape(shape));
  RecordBackward(context, y, [&context, node = x.node, before = x.data.shape()](const Tensor& dy) {
    return node == nullptr ? absl::OkStatus() : AddGradient(context, *node, dy.Reshape(before));
  });
  return y;
}

absl::StatusOr<Value> DropoutOp(Context& context, const Value& x, float rate,
                                absl::string_view name) {
  const Shape& shape = x.data.shape();
  if (!(rate >= 0 && rate < 1) || shape.rank() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("dropout '", name, "': a rate of ", rate, " for ", shape.ToString(),
                     ", expected at least 0 and below 1, and samples in dimension 0"));
  }
  const std::optional<StepDraws>& step = context.draws();
  if (!step.has_value()) {
    if (!context.recording()) return x;
    return absl::FailedPreconditionError(
        absl::StrCat("dropout '", name, "': the draws of this step are not set; call ",
                     "Context::set_draws before each forward that is trained"));
  }
  if (rate == 0) return x;
  BasicArgs args{.op = BasicOp::kDropout, .a = x.data, .scalar = rate};
  const int64_t samples = shape.dim(0);
  args.draws = {.key = MakeDropoutKey(step->seed, step->step),
                .stream = HashName(name),
                .first_element = samples == 0 ? 0 : step->first_sample * (shape.numel() / samples)};
  ZEROTH_ASSIGN_OR_RETURN(const Value y, Make(context, shape, args));
  args.a = Matrix();  // backward drops the same elements of the gradient
  RecordBackward(context, y, [&context, node = x.node, args](const Tensor& dy) mutable {
    args.a = dy;
    return Contribute(context, node.get(), dy.shape(), args);
  });
  return y;
}

}  // namespace zeroth
