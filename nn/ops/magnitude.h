// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// The magnitudes of an adapted weight, weight + scale * (a b), and the columns of a layer's output
// that it makes.
struct MagnitudePart {
  Parameter* weight = nullptr;     // kInOut: [in, out]; kOutIn: [out, in]
  Parameter* a = nullptr;          // kInOut: [in, rank]; kOutIn: [rank, in]
  Parameter* b = nullptr;          // kInOut: [rank, out]; kOutIn: [out, rank]
  Parameter* magnitude = nullptr;  // [out], fp32 (Parameter::keeps_fp32)
  Parameter* bias = nullptr;       // [out], frozen, or nullptr
  int64_t column = 0;              // where its `out` columns begin
};

// x [.., columns] → the same shape: x[.., j] * magnitude[j] / n[j] + bias[j] in the columns of each
// part, and x in the others. n[j] is the 2-norm of output j's adapted weights, computed in fp32, a
// block of the weight's rows at a time. As in PEFT, backward treats n as a constant (Liu et al.,
// "DoRA: Weight-Decomposed Low-Rank Adaptation", 2024, section 4.3). Factors are fp32, and y is
// rounded once, twice with a bias.
absl::StatusOr<Value> MagnitudeOp(Context& context, const Value& x,
                                  absl::Span<const MagnitudePart> parts, WeightLayout layout,
                                  float scale);

}  // namespace zeroth
