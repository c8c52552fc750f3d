// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_OPTIM_CLIP_GRAD_NORM_H_
#define ZEROTH_OPTIM_CLIP_GRAD_NORM_H_

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// {norm, factor} as fp32 [2] in device memory, in the order of the compute stream: the global
// 2-norm of all reduced gradients, infinite or NaN if a gradient is, and what brings it to
// max_norm, min(1, max_norm / (norm + 1e-6)) as torch's clip_grad_norm_ (Pascanu et al., 2013).
// Gradients are left as they are, since the optimizer applies the factor itself: it is
// AdamW::Step's `grad_factor`, NaN if the norm is not finite in fp32, and AdamW then leaves
// everything as it is. max_norm <= 0: no clipping, factor 1. Collective: one small all-reduce over
// the shard group, none if gradients are replicated. Squares are summed exactly, so the result has
// the same bits wherever shards begin. `grad_scale` is what gradients are to be multiplied by
// before (one over the loss scale): the norm is that of the product, and the factor comes on top of
// it. Call it between Scheduler::FinishBackward and EndStep; FailedPrecondition names a unit whose
// gradients are not reduced.
absl::StatusOr<Tensor> GradNormAndScale(Sharding& sharding, Kernels& kernels, double max_norm,
                                        double grad_scale = 1.0);

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_CLIP_GRAD_NORM_H_
