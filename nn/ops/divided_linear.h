// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Linear layers whose weight is divided (ops/divided.h): by its outputs (column-parallel), each
// rank making some of them from all inputs, or by its depth (row-parallel), each rank reading some
// of the inputs. For LinearOp.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/ops/linear.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// True if a divided weight is column-parallel: each rank's part reads all inputs.
bool IsColumnParallel(const Parameter& weight, WeightLayout layout);

// A block of a weight: outputs [out, out + outs) and inputs [in, in + ins).
struct WeightBlock {
  int64_t out = 0;
  int64_t outs = 0;
  int64_t in = 0;
  int64_t ins = 0;
};
// Returns the blocks of a part's matmuls: the whole part, or this rank's deterministic pieces in
// order, with one block per section in each. Block sizes do not depend on the number of ranks,
// since a matmul's bits may depend on all of its sizes.
std::vector<WeightBlock> BlocksOf(Context& context, const LinearPart& part, WeightLayout layout);
Matrix BlockOf(const Tensor& weight, WeightLayout layout, const WeightBlock& block);

// out (+)= dy w^T over the outputs of this rank's deterministic piece number `piece`, or over all
// outputs without such pieces or if the weight is not divided. `weight` has the part's values
// (WeightValues).
absl::Status PieceInputGradient(Context& context, const LinearPart& part, WeightLayout layout,
                                const Tensor& weight, const Matrix& dy, int piece,
                                const Matrix& out, bool accumulate);

// x [.., in of this rank] → [.., out]: the sum of all ranks' matmuls, plus the bias once.
// InvalidArgument for an activation. `is_read` is that of LinearOp.
absl::StatusOr<Value> DepthDividedLinearOp(Context& context, const Value& x, const LinearPart& part,
                                           WeightLayout layout, Activation activation,
                                           bool is_read);

// Like LinearBackward, for a layer that is divided by outputs: the gradient of x is a sum over
// ranks. `x` is what LinearOp was given, which may be a share of the rows.
absl::Status OutputDividedBackward(Context& context, absl::Span<const LinearPart> parts,
                                   WeightLayout layout, const Tensor& x, GradientNode* x_node,
                                   const Tensor& dy);

}  // namespace zeroth
