// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/basic.h"

#include <utility>
#include <vector>

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

// Adds the result of `args`, with the shape `as` if given, to the gradient of an activation, if it
// has a node.
absl::Status Contribute(Context& context, GradientNode* node, const Shape& shape, BasicArgs args,
                        const std::optional<Shape>& as = std::nullopt) {
  if (node == nullptr) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot,
                          TakeGradient(context, *node, shape, args.a.tensor.dtype()));
  args.out = slot.tensor.Reshape(as.value_or(shape));
  args.accumulate = slot.accumulate;
  return kernels::Basic(context.kernels(), args);
}

// Applies `forward` to x. Backward reads the result, which the next operation likely keeps anyway,
// or x if `keeps_input`.
absl::StatusOr<Value> Unary(Context& context, const Value& x, BasicOp forward, BasicOp backward,
                            bool keeps_input = false) {
  ZEROTH_ASSIGN_OR_RETURN(const Value y,
                          Make(context, x.data.shape(), {.op = forward, .a = x.data}));
  const Tensor& kept = keeps_input ? x.data : y.data;
  RecordBackward(context, y, [&context, node = x.node, backward, kept](const Tensor& dy) {
    return Contribute(context, node.get(), dy.shape(), {.op = backward, .a = kept, .b = dy});
  });
  return y;
}

absl::Status ExpectSame(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape()) return absl::OkStatus();
  return InvalidArgument(operation, ": shapes differ: ", a.shape().ToString(), " and ",
                         b.shape().ToString());
}

// A shape split at one of its dimensions, as a matrix in which a range along that dimension is a
// range of columns.
struct Axis {
  int64_t outer = 1;
  int64_t size = 0;
  int64_t inner = 1;

  int64_t width() const { return size * inner; }
  Shape matrix() const { return Shape({outer, width()}); }
  Matrix Rows(const Tensor& x) const { return x.Reshape(matrix()); }
};

absl::StatusOr<Axis> AxisOf(const char* operation, const Shape& shape, int dim) {
  const int rank = shape.rank();
  if (dim < -rank || dim >= rank) {
    return InvalidArgument(operation, ": dimension ", dim, " of ", shape.ToString(), ", which has ",
                           rank);
  }
  const int at = dim < 0 ? dim + rank : dim;
  Axis axis;
  for (int i = 0; i < at; ++i) axis.outer *= shape.dim(i);
  axis.size = shape.dim(at);
  for (int i = at + 1; i < rank; ++i) axis.inner *= shape.dim(i);
  return axis;
}

// The mean over the middle of [outer, size, inner], as `shape`.
absl::StatusOr<Value> MeanOver(Context& context, const Value& x, const Axis& axis,
                               const Shape& shape) {
  if (axis.size == 0) {
    return InvalidArgument("mean: ", x.data.shape().ToString(), " has nothing to take a mean of");
  }
  const Shape rows({axis.outer * axis.size, axis.inner});
  const Shape means({axis.outer, axis.inner});
  ZEROTH_ASSIGN_OR_RETURN(
      Value y,
      Make(context, means, {.op = BasicOp::kMean, .a = x.data.Reshape(rows), .group = axis.size}));
  y.data = y.data.Reshape(shape);
  RecordBackward(
      context, y,
      [&context, node = x.node, full = x.data.shape(), axis, rows, means](const Tensor& dy) {
        return Contribute(
            context, node.get(), full,
            {.op = BasicOp::kMeanBackward, .a = dy.Reshape(means), .group = axis.size}, rows);
      });
  return y;
}

// c (+)= op(a) op(b), one GEMM for each index of the leading dimensions.
absl::Status BatchedMatmul(Context& context, const Tensor& a, bool transpose_a, const Tensor& b,
                           bool transpose_b, const Tensor& c, bool accumulate) {
  const auto matrix = [](const Tensor& x, int64_t i) {
    const Shape shape({x.dim(-2), x.dim(-1)});
    return x.View(i * shape.numel(), shape);
  };
  int64_t count = 1;
  for (int i = 0; i + 2 < c.shape().rank(); ++i) count *= c.dim(i);
  for (int64_t i = 0; i < count; ++i) {
    ZEROTH_RETURN_IF_ERROR(kernels::Gemm(context.kernels(), {.a = matrix(a, i),
                                                             .b = matrix(b, i),
                                                             .c = matrix(c, i),
                                                             .transpose_a = transpose_a,
                                                             .transpose_b = transpose_b,
                                                             .accumulate = accumulate}));
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
    return InvalidArgument("matmul: ", left.ToString(), transpose_a ? " transposed" : "", " times ",
                           right.ToString(), transpose_b ? " transposed" : "",
                           ", expected [.., m, k] and [.., k, n]");
  }
  const Shape shape =
      left.With(-2, left.dim(transpose_a ? -1 : -2)).WithLast(right.dim(transpose_b ? -2 : -1));
  ZEROTH_ASSIGN_OR_RETURN(Tensor c, context.Empty(shape, a.data.dtype()));
  ZEROTH_RETURN_IF_ERROR(
      BatchedMatmul(context, a.data, transpose_a, b.data, transpose_b, c, /*accumulate=*/false));
  const Value y = context.MakeValue(std::move(c));
  RecordBackward(
      context, y, [&context, a, b, transpose_a, transpose_b](const Tensor& dy) -> absl::Status {
        if (a.node != nullptr) {  // dy op(b)^T, or its transpose
          ZEROTH_ASSIGN_OR_RETURN(const NodeSlot da, TakeGradient(context, *a.node, a.data));
          ZEROTH_RETURN_IF_ERROR(
              transpose_a
                  ? BatchedMatmul(context, b.data, transpose_b, dy, true, da.tensor, da.accumulate)
                  : BatchedMatmul(context, dy, false, b.data, !transpose_b, da.tensor,
                                  da.accumulate));
        }
        if (b.node == nullptr) return absl::OkStatus();
        ZEROTH_ASSIGN_OR_RETURN(const NodeSlot db, TakeGradient(context, *b.node, b.data));
        return transpose_b
                   ? BatchedMatmul(context, dy, true, a.data, transpose_a, db.tensor, db.accumulate)
                   : BatchedMatmul(context, a.data, !transpose_a, dy, false, db.tensor,
                                   db.accumulate);
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
  switch (function) {
    case ActivationFunction::kGelu:
      return GeluOp(context, x);
    case ActivationFunction::kSilu:
      return Unary(context, x, BasicOp::kSilu, BasicOp::kSiluBackward, /*keeps_input=*/true);
    case ActivationFunction::kTanh:
      return Unary(context, x, BasicOp::kTanh, BasicOp::kTanhBackward);
    case ActivationFunction::kSigmoid:
      return Unary(context, x, BasicOp::kSigmoid, BasicOp::kSigmoidBackward);
    case ActivationFunction::kRelu:
      break;
  }
  return Unary(context, x, BasicOp::kRelu, BasicOp::kReluBackward);
}

absl::StatusOr<Value> SoftmaxOp(Context& context, const Value& x) {
  if (x.data.shape().rank() < 1) {
    return absl::InvalidArgumentError("softmax: a scalar, expected at least one dimension");
  }
  return Unary(context, x, BasicOp::kSoftmax, BasicOp::kSoftmaxBackward);
}

absl::StatusOr<Value> MeanOp(Context& context, const Value& x, int dim) {
  ZEROTH_ASSIGN_OR_RETURN(const Axis axis, AxisOf("mean", x.data.shape(), dim));
  const absl::Span<const int64_t> dims = x.data.shape().dims();
  std::vector<int64_t> others(dims.begin(), dims.end());
  others.erase(others.begin() + (dim < 0 ? dim + x.data.shape().rank() : dim));
  return MeanOver(context, x, axis, Shape(others));
}

absl::StatusOr<Value> MeanOp(Context& context, const Value& x) {
  return MeanOver(context, x, {.size = x.data.numel()}, Shape({1}));
}

absl::StatusOr<Value> SliceOp(Context& context, const Value& x, int dim, int64_t begin,
                              int64_t count) {
  const Shape& shape = x.data.shape();
  ZEROTH_ASSIGN_OR_RETURN(const Axis axis, AxisOf("slice", shape, dim));
  if (begin < 0 || count < 0 || begin > axis.size - count) {
    return InvalidArgument("slice: ", count, " from ", begin, " on along dimension ", dim, " of ",
                           shape.ToString());
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor out, context.Empty(shape.With(dim, count), x.data.dtype()));
  Axis part = axis;
  part.size = count;
  const int64_t column = begin * axis.inner;
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(
      context.kernels(),
      {.a = axis.Rows(x.data).Columns(column, part.width()), .out = part.Rows(out)}));
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
        return kernels::Basic(
            context.kernels(),
            {.a = part.Rows(dy), .out = whole.Columns(column, part.width()), .accumulate = true});
      });
  return y;
}

absl::StatusOr<Value> ConcatOp(Context& context, absl::Span<const Value> parts, int dim) {
  if (parts.empty()) return absl::InvalidArgumentError("concat: no tensors, expected at least one");
  const Shape& first = parts[0].data.shape();
  ZEROTH_ASSIGN_OR_RETURN(Axis whole, AxisOf("concat", first, dim));
  std::vector<Axis> axes;
  whole.size = 0;
  for (const Value& part : parts) {
    const Shape& shape = part.data.shape();
    ZEROTH_ASSIGN_OR_RETURN(axes.emplace_back(), AxisOf("concat", shape, dim));
    if (shape.rank() != first.rank() || shape.With(dim, 0) != first.With(dim, 0)) {
      return InvalidArgument("concat: ", shape.ToString(), " beside ", first.ToString(),
                             " along dimension ", dim, ", expected the same other dimensions");
    }
    whole.size += axes.back().size;
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor out,
                          context.Empty(first.With(dim, whole.size), parts[0].data.dtype()));
  int64_t column = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context.kernels(), {.a = axes[i].Rows(parts[i].data),
                            .out = whole.Rows(out).Columns(column, axes[i].width())}));
    column += axes[i].width();
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
          const Matrix part = whole.Rows(dy).Columns(from, axes[i].width());
          from += part.cols;
          ZEROTH_RETURN_IF_ERROR(
              Contribute(context, nodes[i].get(), shapes[i], {.a = part}, axes[i].matrix()));
        }
        return absl::OkStatus();
      });
  return y;
}

absl::StatusOr<Value> ReshapeOp(Context& context, const Value& x, const Shape& shape) {
  if (shape.numel() != x.data.numel()) {
    return InvalidArgument("reshape: ", x.data.shape().ToString(), " to ", shape.ToString(),
                           ", expected as many elements");
  }
  const Value y = context.MakeValue(x.data.Reshape(shape));
  RecordBackward(context, y, [&context, node = x.node, before = x.data.shape()](const Tensor& dy) {
    return node == nullptr ? absl::OkStatus() : AddGradient(context, *node, dy.Reshape(before));
  });
  return y;
}

absl::StatusOr<std::optional<DropoutDraws>> DrawsOfDropout(Context& context, const Shape& shape,
                                                           absl::string_view name) {
  const std::optional<StepDraws>& step = context.draws();
  if (!step.has_value()) {
    if (!context.recording()) return std::nullopt;
    return FailedPrecondition("dropout '", name, "': the draws of this step are not set; call ",
                              "Context::set_draws before each forward that is trained");
  }
  const int64_t samples = shape.dim(0);
  return DropoutDraws{
      .key = MakeDropoutKey(step->seed, step->step),
      .stream = HashName(name),
      .first_element = samples == 0 ? 0 : step->first_sample * (shape.numel() / samples)};
}

absl::StatusOr<Value> DropoutOp(Context& context, const Value& x, float rate,
                                absl::string_view name) {
  const Shape& shape = x.data.shape();
  if (!(rate >= 0 && rate < 1) || shape.rank() < 1) {
    return InvalidArgument("dropout '", name, "': a rate of ", rate, " for ", shape.ToString(),
                           ", expected at least 0 and below 1, and samples in dimension 0");
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<DropoutDraws> draws,
                          DrawsOfDropout(context, shape, name));
  if (!draws.has_value() || rate == 0) return x;
  BasicArgs args{.op = BasicOp::kDropout, .a = x.data, .scalar = rate, .draws = *draws};
  ZEROTH_ASSIGN_OR_RETURN(const Value y, Make(context, shape, args));
  args.a = Matrix();  // backward drops the same elements of the gradient
  RecordBackward(context, y, [&context, node = x.node, args](const Tensor& dy) mutable {
    args.a = dy;
    return Contribute(context, node.get(), dy.shape(), args);
  });
  return y;
}

}  // namespace zeroth
