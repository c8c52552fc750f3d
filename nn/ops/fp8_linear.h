// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// True if the three matmuls of every part can run in 8-bit floats: in and out are multiples of 16.
bool FitsFp8(absl::Span<const LinearPart> parts, WeightLayout layout);

// LinearOp with its matmuls in 8-bit floats: input and weights as e4m3, the gradient of the output
// as e5m2 ("FP8 formats for deep learning", Micikevicius et al., 2022), sums in fp32, results in
// the type of x. Each tensor has one scale, from its largest magnitude at that moment, as in
// torchao's Float8Linear with tensorwise scaling; nothing is remembered from step to step, so that
// recomputation has the same bits. x and its gradient belong to this rank alone, and so do their
// scales; a weight is full here, and its scale is that of the whole weight under any sharding. The
// input is kept as 8-bit floats, or not at all if all weights are frozen. Bias gradients are summed
// as in LinearOp.
//
// x is bf16 or fp16 (InvalidArgument for fp32) with any number of rows; the parts fit (FitsFp8).
// `is_read` is that of LinearOp.
absl::StatusOr<Value> Fp8LinearOp(Context& context, const Value& x,
                                  absl::Span<const LinearPart> parts, WeightLayout layout,
                                  bool is_read = true);

}  // namespace zeroth
