// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// How weights are stored: [in, out] (GPT-2's Conv1D), or [out, in] (all other models).
enum class WeightLayout : uint8_t { kInOut, kOutIn };

// A frozen weight quantised to few bits (PackedFormat). `weight` gives its name, shape and perhaps
// part, but has no storage and is in no unit; `codes` and `scales` are in one.
struct PackedWeight {
  Parameter* weight = nullptr;  // [out, in]
  Parameter* codes = nullptr;   // uint8 [out, shape.CodeBytes(in)], divided as the weight is
  Parameter* scales = nullptr;  // uint8 [shape.scale_bytes()], of the undivided weight, or nullptr
  PackedShape shape;            // of the undivided weight
};

struct LinearPart {
  Parameter* weight = nullptr;           // kInOut: [in, out]; kOutIn: [out, in]
  Parameter* bias = nullptr;             // [out], or nullptr
  const PackedWeight* packed = nullptr;  // packed form of `weight`, or nullptr
};

int64_t InFeatures(const LinearPart& part, WeightLayout layout);
int64_t OutFeatures(const LinearPart& part, WeightLayout layout);
// Returns the weight's full values, unpacked in `dtype` if it is packed; the unpacked copy lives as
// long as the result. Errors of FullValues.
absl::StatusOr<Tensor> WeightValues(Context& context, const LinearPart& part, DType dtype);
// Enqueues unpacking this rank's parts of weights, such as those of experts, into `values`. All
// have the shape and the part of the first one; neighbours of one format are unpacked by one call.
// `offsets` are those of UnpackArgs. Errors of FullValues.
absl::Status UnpackWeights(Context& context, absl::Span<const PackedWeight* const> packed,
                           absl::Span<const Tensor> values, const Tensor& offsets = {});
// InvalidArgument names the weight and the shapes unless x fits the parts.
absl::Status ValidateLinearInput(const Tensor& x, absl::Span<const LinearPart> parts,
                                 WeightLayout layout);

// x [.., in] → [.., sum of the parts' out]: the parts' matmuls side by side, so that projections of
// one input that are stored apart (query, key and value; gate and up) give one packed tensor.
// `activation` is applied in the same pass. While recording, kGelu keeps its input for backward,
// and supports one part only (InvalidArgument); kSilu is FailedPrecondition. If `is_read` is false,
// a recomputed forward skips the matmul (Context::unread_result).
absl::StatusOr<Value> LinearOp(Context& context, const Value& x, absl::Span<const LinearPart> parts,
                               WeightLayout layout, Activation activation = Activation::kNone,
                               bool is_read = true);

// The functions below are for other operations that contain these matmuls.
//
// Backward of the matmuls of x with the parts. Adds to the gradients of weights and biases, and to
// the gradient of x unless `x_node` is null.
absl::Status LinearBackward(Context& context, absl::Span<const LinearPart> parts,
                            WeightLayout layout, const Tensor& x, GradientNode* x_node,
                            const Tensor& dy);
// dx (+)= dy w^T.
absl::Status InputGradient(Context& context, const LinearPart& part, WeightLayout layout,
                           const Matrix& dy, const Matrix& dx, bool accumulate);
// dw (+)= x^T dy, in the layout of the weight.
absl::Status WeightGradient(Context& context, const LinearPart& part, WeightLayout layout,
                            const Matrix& x, const Matrix& dy, const Tensor& dw, bool accumulate);

}  // namespace zeroth
