// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// The results of a normalisation after a residual connection.
struct NormResult {
  Value sum;         // x + residual, or x itself without a residual
  Value normalized;  // same shape
};

// Layer normalisation of x [.., dim], plus the residual if its data is defined, over the last
// dimension; gamma and beta are [dim]. Without a beta (nullptr) it normalises by root mean square.
// Scales by gamma + gamma_offset, added in fp32.
//
// With `of_heads`, x is [.., heads of this rank, dim], and deterministic pieces consist of heads.
// With `of_heads`, or if rows are shared, each tensor rank normalises different rows with the same
// weights, so the weights' gradients are summed over ranks. If gamma is divided, x has this rank's
// columns of rows whose mean squares span all ranks, and there is no beta.
absl::StatusOr<NormResult> NormOp(Context& context, const Value& x, const Value& residual,
                                  Parameter& gamma, Parameter* beta, float eps,
                                  bool of_heads = false, float gamma_offset = 0.0f);

}  // namespace zeroth
