// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/ops/fp8_linear.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/fp8/fp8_format.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/kept_outputs.h"

namespace zeroth {
namespace {

// The layouts of a matrix's codes that are needed.
enum class Layouts : uint8_t { kStraight, kTransposed, kBoth };

// A matrix in 8-bit floats, in the layouts that were asked for.
struct Fp8Matrix {
  Fp8Operand straight;    // [rows, cols]
  Fp8Operand transposed;  // [cols, PaddedFp8Depth(rows)]
};

absl::StatusOr<Fp8Matrix> CastToFp8(Context& context, const Matrix& values, Fp8Format format,
                                    Layouts layouts) {
  CastFp8Args cast;
  cast.values = values;
  cast.format = format;
  ZEROTH_ASSIGN_OR_RETURN(cast.scale, context.Empty(Shape({2}), DType::kFloat32));
  if (layouts != Layouts::kTransposed) {
    ZEROTH_ASSIGN_OR_RETURN(cast.codes,
                            context.Empty(Shape({values.rows, values.cols}), DType::kUInt8));
  }
  if (layouts != Layouts::kStraight) {
    ZEROTH_ASSIGN_OR_RETURN(
        cast.codes_transposed,
        context.Empty(Shape({values.cols, PaddedFp8Depth(values.rows)}), DType::kUInt8));
  }
  ZEROTH_RETURN_IF_ERROR(kernels::CastFp8(context.kernels(), cast));
  return Fp8Matrix{{cast.codes, format, cast.scale}, {cast.codes_transposed, format, cast.scale}};
}

// Returns a weight in fp8 with its inputs innermost (`depth_is_in`), as forward multiplies it, or
// with its outputs innermost, as the gradient of the input needs it.
absl::StatusOr<Fp8Operand> WeightOperand(Context& context, const Parameter& weight,
                                         WeightLayout layout, bool depth_is_in) {
  const bool as_it_is = (layout == WeightLayout::kOutIn) == depth_is_in;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor values, FullValues(weight));
  ZEROTH_ASSIGN_OR_RETURN(const Fp8Matrix codes,
                          CastToFp8(context, values, Fp8Format::kE4M3,
                                    as_it_is ? Layouts::kStraight : Layouts::kTransposed));
  return as_it_is ? codes.straight : codes.transposed;
}

absl::Status Multiply(Context& context, const Fp8Operand& a, const Fp8Operand& b, const Matrix& c,
                      bool accumulate, const Tensor& bias = Tensor()) {
  return kernels::Fp8Gemm(context.kernels(),
                          {.a = a, .b = b, .c = c, .accumulate = accumulate, .bias = bias});
}

absl::Status ForwardPart(Context& context, const LinearPart& part, WeightLayout layout,
                         const Fp8Operand& x, const Matrix& y) {
  ZEROTH_ASSIGN_OR_RETURN(const Fp8Operand weight,
                          WeightOperand(context, *part.weight, layout, /*depth_is_in=*/true));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor bias,
                          part.bias == nullptr ? Tensor() : FullValues(*part.bias));
  return Multiply(context, x, weight, y, /*accumulate=*/false, bias);
}

absl::Status ParameterGradients(Context& context, const LinearPart& part, WeightLayout layout,
                                const Fp8Operand& x_transposed, const Fp8Operand& dy_transposed,
                                const Matrix& dy) {
  if (part.weight->requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, part.weight->TakeGradient());
    const bool in_out = layout == WeightLayout::kInOut;
    ZEROTH_RETURN_IF_ERROR(Multiply(context, in_out ? x_transposed : dy_transposed,
                                    in_out ? dy_transposed : x_transposed, slot.tensor,
                                    slot.accumulate));
  }
  if (part.bias != nullptr && part.bias->requires_grad()) {
    ZEROTH_ASSIGN_OR_RETURN(const Parameter::GradientSlot slot, part.bias->TakeGradient());
    ZEROTH_RETURN_IF_ERROR(
        kernels::BiasGradient(context.kernels(), dy, slot.tensor, slot.accumulate));
  }
  return absl::OkStatus();
}

// The data of the input that backward needs.
struct Input {
  Shape shape;
  DType dtype = DType::kBFloat16;
  std::shared_ptr<GradientNode> node;
  Fp8Operand transposed;  // empty if no weight has a gradient
};

absl::Status BackwardPart(Context& context, const LinearPart& part, WeightLayout layout,
                          const Input& x, const Matrix& dy) {
  const bool for_weight = part.weight->requires_grad();
  const bool for_input = x.node != nullptr;
  Fp8Matrix dy_codes;
  if (for_weight || for_input) {
    const Layouts layouts = !for_input    ? Layouts::kTransposed
                            : !for_weight ? Layouts::kStraight
                                          : Layouts::kBoth;
    ZEROTH_ASSIGN_OR_RETURN(dy_codes, CastToFp8(context, dy, Fp8Format::kE5M2, layouts));
  }
  ZEROTH_RETURN_IF_ERROR(
      ParameterGradients(context, part, layout, x.transposed, dy_codes.transposed, dy));
  if (!for_input) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const NodeSlot slot, TakeGradient(context, *x.node, x.shape, x.dtype));
  ZEROTH_ASSIGN_OR_RETURN(const Fp8Operand weight,
                          WeightOperand(context, *part.weight, layout, /*depth_is_in=*/false));
  return Multiply(context, dy_codes.straight, weight, slot.tensor, slot.accumulate);
}

absl::Status Validate(const Value& x, absl::Span<const LinearPart> parts, WeightLayout layout) {
  ZEROTH_RETURN_IF_ERROR(ValidateLinearInput(x.data, parts, layout));
  const char* const weight = parts.empty() ? "" : parts[0].weight->name().c_str();
  if (x.data.dtype() == DType::kFloat32) {
    return InvalidArgument("fp8 linear layer with weight '", weight,
                           "': its input is fp32, expected bf16 or fp16, the types of its results");
  }
  if (!FitsFp8(parts, layout)) {
    return InvalidArgument("fp8 linear layer with weight '", weight, "' ",
                           parts[0].weight->shape().ToString(), ": expected sizes in steps of ",
                           kFp8Step);
  }
  return absl::OkStatus();
}

}  // namespace

bool FitsFp8(absl::Span<const LinearPart> parts, WeightLayout layout) {
  return std::all_of(parts.begin(), parts.end(), [layout](const LinearPart& part) {
    return InFeatures(part, layout) % kFp8Step == 0 && OutFeatures(part, layout) % kFp8Step == 0;
  });
}

absl::StatusOr<Value> Fp8LinearOp(Context& context, const Value& x,
                                  absl::Span<const LinearPart> parts, WeightLayout layout,
                                  bool is_read) {
  ZEROTH_RETURN_IF_ERROR(Validate(x, parts, layout));
  int64_t out = 0;
  bool trains = false;
  for (const LinearPart& part : parts) {
    out += OutFeatures(part, layout);
    trains = trains || part.weight->requires_grad();
  }
  ZEROTH_ASSIGN_OR_RETURN(Tensor y, context.Empty(x.data.shape().WithLast(out), x.data.dtype()));
  const bool keeps_input = context.recording() && trains;
  ZEROTH_ASSIGN_OR_RETURN(const Fp8Matrix x_codes,
                          CastToFp8(context, x.data, Fp8Format::kE4M3,
                                    keeps_input ? Layouts::kBoth : Layouts::kStraight));
  int64_t column = 0;
  for (const LinearPart& part : parts) {
    const Matrix out_part = Matrix(y).Columns(column, OutFeatures(part, layout));
    column += out_part.cols;
    const absl::Status made = ComputeOrReuseMatmul(context, {out_part}, is_read, [&] {
      return ForwardPart(context, part, layout, x_codes.straight, out_part);
    });
    ZEROTH_RETURN_IF_ERROR_WITH(made, part.weight->name());
  }
  Value result = context.MakeValue(std::move(y));
  const Input input = {x.data.shape(), x.data.dtype(), x.node, x_codes.transposed};
  RecordBackward(context, result,
                 [&context, parts = std::vector<LinearPart>(parts.begin(), parts.end()), layout,
                  input](const Tensor& dy) -> absl::Status {
                   int64_t begin = 0;
                   for (const LinearPart& part : parts) {
                     const int64_t width = OutFeatures(part, layout);
                     ZEROTH_RETURN_IF_ERROR_WITH(BackwardPart(context, part, layout, input,
                                                              Matrix(dy).Columns(begin, width)),
                                                 part.weight->name());
                     begin += width;
                   }
                   return absl::OkStatus();
                 });
  return result;
}

}  // namespace zeroth
