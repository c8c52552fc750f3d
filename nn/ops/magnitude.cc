// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/magnitude.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/nn/ops/divided.h"
#include "zeroth/nn/ops/divided_linear.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {
namespace {

// Elements of the weight that are adapted at a time: 4 MiB in fp32.
constexpr int64_t kBlock = int64_t{1} << 20;
// Rows whose products are summed at a time. Not a number of elements: the columns of a rank depend
// on the layout, and the order of a sum must not.
constexpr int64_t kSummedRows = 1024;

Matrix Rows(Matrix matrix, int64_t begin, int64_t count) {
  matrix.offset += begin * matrix.stride;
  matrix.rows = count;
  return matrix;
}

// Broadcasts a row to `rows` rows.
Matrix Repeated(const Tensor& row, int64_t rows) {
  Matrix matrix = row;
  matrix.rows = rows;
  matrix.stride = 0;
  return matrix;
}

// sums[outs of the block] = the sums of the squares of the adapted weight's elements in the block.
// `a` is in fp32 and scaled, `b` in fp32.
absl::Status SquaresOfBlock(Context& context, const Tensor& weight, const Tensor& a,
                            const Tensor& b, WeightLayout layout, const WeightBlock& block,
                            const Tensor& sums) {
  const bool is_in_out = layout == WeightLayout::kInOut;
  const int64_t rank = b.dim(is_in_out ? 0 : 1);
  const Matrix all = BlockOf(weight, layout, block);
  const Matrix of_a = BlockOf(a, layout, {0, rank, block.in, block.ins});
  const Matrix of_b = BlockOf(b, layout, {block.out, block.outs, 0, rank});
  const Matrix& left = is_in_out ? of_a : of_b;
  const Matrix& right = is_in_out ? of_b : of_a;
  const int64_t step = std::max<int64_t>(1, kBlock / std::max<int64_t>(1, all.cols));
  for (int64_t row = 0; row < all.rows; row += step) {
    const int64_t rows = std::min(step, all.rows - row);
    ZEROTH_ASSIGN_OR_RETURN(Tensor adapted, CopyOf(context, Rows(all, row, rows)));
    ZEROTH_ASSIGN_OR_RETURN(adapted, CastTo(context, adapted, DType::kFloat32));
    ZEROTH_RETURN_IF_ERROR(
        kernels::Gemm(context.kernels(),
                      {.a = Rows(left, row, rows), .b = right, .c = adapted, .accumulate = true}));
    if (!is_in_out) {
      RmsSumsArgs args;
      args.x = adapted;
      args.sums = sums.View(block.out + row, Shape({rows}));
      ZEROTH_RETURN_IF_ERROR(kernels::RmsSums(context.kernels(), args));
      continue;
    }
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(
        context.kernels(), {.op = BasicOp::kMultiply, .a = adapted, .b = adapted, .out = adapted}));
    ZEROTH_RETURN_IF_ERROR(kernels::BiasGradient(context.kernels(), adapted,
                                                 sums.View(block.out, Shape({block.outs})),
                                                 /*accumulate=*/row > 0));
  }
  return absl::OkStatus();
}

// Returns n^2 of this rank's outputs, which ranks sum up if the depth is divided among them.
absl::StatusOr<Tensor> SquaredNorms(Context& context, const MagnitudePart& part,
                                    WeightLayout layout, float scale) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor weight, FullValues(*part.weight));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor plain_a, FullValues(*part.a));
  ZEROTH_ASSIGN_OR_RETURN(Tensor a, CopyOf(context, plain_a));
  ZEROTH_ASSIGN_OR_RETURN(a, CastTo(context, a, DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(kernels::Scale(context.kernels(), a, scale));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor plain_b, FullValues(*part.b));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor b, CastTo(context, plain_b, DType::kFloat32));
  const std::vector<WeightBlock> blocks = BlocksOf(context, {part.weight}, layout);
  const Shape shape = part.magnitude->shape();
  const bool sums_depth = IsDivided(*part.weight) && !IsColumnParallel(*part.weight, layout);
  if (sums_depth) {
    const auto piece = [&](int index, const Tensor& out) {
      return SquaresOfBlock(context, weight, a, b, layout, blocks[static_cast<size_t>(index)], out);
    };
    ZEROTH_ASSIGN_OR_RETURN(const Tensor sums,
                            LocalSumOfPieces(context, shape, DType::kFloat32, piece));
    ZEROTH_RETURN_IF_ERROR(context.tensor_ranks()->Sum(sums, part.magnitude->name()));
    return sums;
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sums, context.Empty(shape, DType::kFloat32));
  for (const WeightBlock& block : blocks) {
    ZEROTH_RETURN_IF_ERROR(SquaresOfBlock(context, weight, a, b, layout, block, sums));
  }
  return sums;
}

struct Factors {
  Tensor factor;   // magnitude / n, fp32
  Tensor inverse;  // 1 / n, fp32
};

// Divides each magnitude by the norm of its output's weights, using the RMS-norm kernel on
// one-column rows with precomputed sums of squares.
absl::StatusOr<Factors> FactorsOf(Context& context, const MagnitudePart& part, WeightLayout layout,
                                  float scale) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sums, SquaredNorms(context, part, layout, scale));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor magnitude, FullValues(*part.magnitude));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor one, context.Empty(Shape({1}), DType::kFloat32));
  ZEROTH_RETURN_IF_ERROR(
      kernels::Basic(context.kernels(), {.op = BasicOp::kFill, .out = one, .scalar = 1}));
  const int64_t outs = sums.numel();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor factor, context.Empty(Shape({outs}), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor inverse, context.Empty(Shape({outs}), DType::kFloat32));
  RmsNormArgs args;
  args.x = magnitude.Reshape(Shape({outs, 1}));
  args.gamma = one;
  args.eps = 1e-30f;  // keeps an output whose weights are all zero at zero
  args.y = factor.Reshape(Shape({outs, 1}));
  args.rstd = inverse;
  args.sums = sums;
  args.width = 1;
  ZEROTH_RETURN_IF_ERROR(kernels::RmsNorm(context.kernels(), args));
  return Factors{factor, inverse};
}

// Adds the gradient of the magnitudes: the sum over rows of dy * x, divided by n. If ranks share
// rows, their sums are added, unless each rank has the outputs of all rows (column-parallel).
absl::Status MagnitudeGradient(Context& context, const MagnitudePart& part, const Tensor& inverse,
                               const Matrix& x, const Matrix& dy) {
  ZEROTH_ASSIGN_OR_RETURN(
      const GradientPlace place,
      TakeGradientPlace(context, *part.magnitude, IsDivided(*part.a) && context.rows_are_shared()));
  if (!place.tensor.defined()) return absl::OkStatus();
  // In fp32: in fp16 products overflow and vanish although their sum does not.
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor products,
      context.Empty(Shape({std::min(kSummedRows, dy.rows), dy.cols}), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sums, context.Empty(Shape({dy.cols}), DType::kFloat32));
  int64_t row = 0;
  do {  // also without rows, for sums of 0
    const int64_t rows = std::min(kSummedRows, dy.rows - row);
    const Tensor block = products.View(0, Shape({rows, dy.cols}));
    ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), {.op = BasicOp::kMultiply,
                                                              .a = Rows(x, row, rows),
                                                              .b = Rows(dy, row, rows),
                                                              .out = block}));
    ZEROTH_RETURN_IF_ERROR(
        kernels::BiasGradient(context.kernels(), block, sums, /*accumulate=*/row > 0));
    row += rows;
  } while (row < dy.rows);
  ZEROTH_RETURN_IF_ERROR(kernels::Basic(
      context.kernels(), {.op = BasicOp::kMultiply, .a = sums, .b = inverse, .out = sums}));
  // A sum over one row casts to the gradient's type and accumulates.
  ZEROTH_RETURN_IF_ERROR(kernels::BiasGradient(context.kernels(), sums.Reshape(Shape({1, dy.cols})),
                                               place.tensor, place.accumulate));
  return FinishGradient(context, *part.magnitude, place);
}

// Calls `adapted` for the columns of each part, and `others` for the columns between parts.
template <typename Adapted, typename Others>
absl::Status ForColumns(const std::vector<MagnitudePart>& parts, int64_t columns,
                        const Adapted& adapted, const Others& others) {
  int64_t column = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t width = parts[i].magnitude->numel();
    if (parts[i].column > column) {
      ZEROTH_RETURN_IF_ERROR(others(column, parts[i].column - column));
    }
    ZEROTH_RETURN_IF_ERROR(adapted(i, parts[i].column, width));
    column = parts[i].column + width;
  }
  return column < columns ? others(column, columns - column) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Value> MagnitudeOp(Context& context, const Value& x,
                                  absl::Span<const MagnitudePart> all, WeightLayout layout,
                                  float scale) {
  const std::vector<MagnitudePart> parts(all.begin(), all.end());
  std::vector<Factors> factors;
  for (const MagnitudePart& part : parts) {
    ZEROTH_ASSIGN_OR_RETURN(factors.emplace_back(), FactorsOf(context, part, layout, scale));
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.EmptyLike(x.data));
  const Matrix from = x.data;
  const Matrix to = y;
  const auto copy = [&context](const Matrix& source, const Matrix& out) {
    return kernels::Basic(context.kernels(), {.op = BasicOp::kScale, .a = source, .out = out});
  };
  const absl::Status scaled = ForColumns(
      parts, from.cols,
      [&](size_t i, int64_t column, int64_t width) -> absl::Status {
        const Matrix out = to.Columns(column, width);
        if (parts[i].bias != nullptr) {
          ZEROTH_ASSIGN_OR_RETURN(const Tensor plain, FullValues(*parts[i].bias));
          ZEROTH_ASSIGN_OR_RETURN(const Tensor bias, CastTo(context, plain, y.dtype()));
          ZEROTH_RETURN_IF_ERROR(copy(Repeated(bias, out.rows), out));
        }
        return kernels::Basic(context.kernels(), {.op = BasicOp::kMultiply,
                                                  .a = from.Columns(column, width),
                                                  .b = Repeated(factors[i].factor, out.rows),
                                                  .out = out,
                                                  .accumulate = parts[i].bias != nullptr});
      },
      [&](int64_t column, int64_t width) {
        return copy(from.Columns(column, width), to.Columns(column, width));
      });
  ZEROTH_RETURN_IF_ERROR(scaled);
  const Value result = context.MakeValue(std::move(y));
  RecordBackward(
      context, result,
      [&context, parts, factors, copy, x_data = x.data,
       x_node = x.node](const Tensor& dy) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *x_node, x_data));
        const Matrix dx = slot.tensor;
        const Matrix from_y = dy;
        return ForColumns(
            parts, dx.cols,
            [&](size_t i, int64_t column, int64_t width) -> absl::Status {
              const Matrix dy_part = from_y.Columns(column, width);
              ZEROTH_RETURN_IF_ERROR(MagnitudeGradient(context, parts[i], factors[i].inverse,
                                                       Matrix(x_data).Columns(column, width),
                                                       dy_part));
              return kernels::Basic(context.kernels(),
                                    {.op = BasicOp::kMultiply,
                                     .a = dy_part,
                                     .b = Repeated(factors[i].factor, dy_part.rows),
                                     .out = dx.Columns(column, width),
                                     .accumulate = slot.accumulate});
            },
            [&](int64_t column, int64_t width) -> absl::Status {
              return kernels::Basic(context.kernels(), {.op = BasicOp::kScale,
                                                        .a = from_y.Columns(column, width),
                                                        .out = dx.Columns(column, width),
                                                        .accumulate = slot.accumulate});
            });
      });
  return result;
}

}  // namespace zeroth
