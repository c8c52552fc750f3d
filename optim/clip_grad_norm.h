// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// Returns {norm, factor} as fp32 [2] in device memory, in the order of the compute stream. The norm
// is the global 2-norm of all reduced gradients, infinite or NaN if a gradient is. The factor
// brings it to max_norm: min(1, max_norm / (norm + 1e-6)), as torch's clip_grad_norm_ (Pascanu et
// al., 2013), or 1 for max_norm <= 0. It is NaN if the norm is not finite in fp32. Gradients stay
// as they are: the factor is Optimizer::Step's `grad_factor`, and an optimizer skips a step whose
// factor is NaN. `grad_scale` (one over the loss scale) multiplies gradients first: the norm is
// that of the scaled gradients, and the factor comes on top.
//
// Collective: one small all-reduce over the shard group, or none if gradients are replicated.
// Squares are summed exactly, so no bit of the result depends on where shards begin. Call it
// between Scheduler::FinishBackward and EndStep; FailedPrecondition names a unit whose gradients
// are not reduced. InvalidArgument for a max_norm that is NaN.
absl::StatusOr<Tensor> GradNormAndScale(Sharding& sharding, Kernels& kernels, double max_norm,
                                        double grad_scale = 1.0);

}  // namespace zeroth
