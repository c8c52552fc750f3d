// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// A LoRA pair: x a b is added to some columns of a layer's output.
struct LowRankPart {
  Parameter* a = nullptr;  // kInOut: [in, rank]; kOutIn: [rank, in]
  Parameter* b = nullptr;  // kInOut: [rank, out]; kOutIn: [out, rank]
  int64_t column = 0;      // where its `out` columns begin
};

// y[.., column : column + out] += scale * (dropout(x) a) b for each part, in place, without another
// tensor as large as y. x is [.., in] and y is [.., at least column + out], of one type. Nothing
// may have read y.data yet, and the backward of the operation that made y must not read it, as
// LinearOp's does not. InvalidArgument names the parameter and both shapes if they do not fit.
//
// Each part has a separate dropout of x, with probability `dropout` in [0, 1): that of
// DropoutOp(context, x, dropout, a->name()), even where ranks hold only some of x's rows or
// columns.
//
// In a layer that is divided by outputs, b is divided; in one that is divided by depth, a is. The
// other matrix is replicated, and ranks exchange x a, the tensor between the two.
absl::Status AddLowRankOp(Context& context, const Value& x, const Value& y,
                          absl::Span<const LowRankPart> parts, WeightLayout layout, float scale,
                          float dropout = 0);

}  // namespace zeroth
