// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Basic operations, for layers without fused ones. The tensors of a call share one element type:
// fp32, bf16 or fp16. Errors are InvalidArgument, and name the operation and the shapes.

#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/shape.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Multiplies element by element; a and b have the same shape.
absl::StatusOr<Value> MultiplyOp(Context& context, const Value& a, const Value& b);
absl::StatusOr<Value> ScaleOp(Context& context, const Value& x, float factor);

// kGelu is the tanh approximation.
enum class ActivationFunction : uint8_t { kRelu, kGelu, kSilu, kTanh, kSigmoid };
absl::StatusOr<Value> ActivationOp(Context& context, const Value& x, ActivationFunction function);

// op(a) op(b) of a [.., m, k] and b [.., k, n], which have the same leading dimensions. With a
// transpose, the last two dimensions of that operand are swapped. Matmuls run one after the other,
// so few large ones are faster than many small ones.
absl::StatusOr<Value> MatmulOp(Context& context, const Value& a, const Value& b,
                               bool transpose_a = false, bool transpose_b = false);

// Softmax along the last dimension.
absl::StatusOr<Value> SoftmaxOp(Context& context, const Value& x);

// The mean along `dim`, which is removed from the shape. Negative dimensions count from the end,
// here and below.
absl::StatusOr<Value> MeanOp(Context& context, const Value& x, int dim);
// The mean of all elements → [1].
absl::StatusOr<Value> MeanOp(Context& context, const Value& x);

// Copies the elements [begin, begin + count) along `dim`.
absl::StatusOr<Value> SliceOp(Context& context, const Value& x, int dim, int64_t begin,
                              int64_t count);
// Concatenates at least one part along `dim`; all other dimensions must be the same.
absl::StatusOr<Value> ConcatOp(Context& context, absl::Span<const Value> parts, int dim);
// The same elements in the same order under another shape; shares x's memory.
absl::StatusOr<Value> ReshapeOp(Context& context, const Value& x, const Shape& shape);

// Zeroes each element with probability `rate`, in [0, 1), and scales the others by 1 / (1 - rate)
// (Srivastava et al., 2014). Dimension 0 of x is the batch. Which elements are zeroed depends only
// on Context::draws, on `name`, and on the element's index in the whole batch, so ranks,
// micro-batches and recomputation do not change it. Each dropout of a model has a different name.
// Without draws in the context the result is x itself, as in evaluation; FailedPrecondition without
// draws while recording.
absl::StatusOr<Value> DropoutOp(Context& context, const Value& x, float rate,
                                absl::string_view name);
// Returns the draws that DropoutOp uses for an x of `shape` under `name`. Without draws in the
// context: nullopt, or FailedPrecondition while recording.
absl::StatusOr<std::optional<DropoutDraws>> DrawsOfDropout(Context& context, const Shape& shape,
                                                           absl::string_view name);

}  // namespace zeroth
