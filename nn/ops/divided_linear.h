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

// Whether each rank's part of a divided weight reads all inputs.
bool TakesAllInputs(const Parameter& weight, WeightLayout layout);

// A block of a weight: some of its outputs and some of its inputs.
struct WeightBlock {
  int64_t out = 0;
  int64_t outs = 0;
  int64_t in = 0;
  int64_t ins = 0;
};
// The blocks that a part's matmuls are made of: all of it; or those of this rank's deterministic
// pieces, one after the other, with one block per section in each. They are the same for any number
// of ranks, since a matmul's bits may depend on all of its sizes.
std::vector<WeightBlock> BlocksOf(Context& context, const LinearPart& part, WeightLayout layout);
Matrix BlockOf(const Tensor& weight, WeightLayout layout, const WeightBlock& block);

// out (+)= dy w^T of `weight`, the part's values (WeightValues), and of the `piece`-th of this
// rank's deterministic pieces of the outputs; of all of them without such pieces, or if the weight
// is not divided.
absl::Status PieceInputGradient(Context& context, const LinearPart& part, WeightLayout layout,
                                const Tensor& weight, const Matrix& dy, int piece,
                                const Matrix& out, bool accumulate);

// x [.., in of this rank] → [.., out]: the sum of all ranks' matmuls, and the bias once.
// InvalidArgument for an activation. `is_read` is that of LinearOp.
absl::StatusOr<Value> DepthDividedLinearOp(Context& context, const Value& x, const LinearPart& part,
                                           WeightLayout layout, Activation activation,
                                           bool is_read);

// As LinearBackward, for a layer that is divided by outputs: the gradient of x is a sum over ranks.
// `x` is what LinearOp was given, which may be a share of the rows.
absl::Status OutputDividedBackward(Context& context, absl::Span<const LinearPart> parts,
                                   WeightLayout layout, const Tensor& x, GradientNode* x_node,
                                   const Tensor& dy);

}  // namespace zeroth
