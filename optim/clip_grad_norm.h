// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_OPTIM_CLIP_GRAD_NORM_H_
#define ZEROTH_OPTIM_CLIP_GRAD_NORM_H_

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

struct ClipResult {
  double norm = 0;   // global 2-norm before clipping; infinite or NaN if a gradient is
  double scale = 1;  // what to multiply gradients with; NaN if the norm is not finite in fp32:
                     // AdamW then leaves everything as it is
};

// The global 2-norm of all reduced gradients and the factor min(1, max_norm / (norm + 1e-6)) that
// brings it to max_norm, as torch's clip_grad_norm_ (Pascanu et al., 2013); gradients are left as
// they are, since the optimizer applies the factor itself. max_norm <= 0: no clipping, scale 1.
// Collective: one small all-reduce over the shard group, none if gradients are replicated. Squares
// are summed exactly, so the result has the same bits wherever shards begin. `grad_scale` is what
// gradients are to be multiplied by before (one over the loss scale): the norm is that of the
// product, and the scale comes on top of it. Call it between
// Scheduler::FinishBackward and EndStep; FailedPrecondition names a unit whose gradients are not
// reduced.
absl::StatusOr<ClipResult> ClipGradNorm(Sharding& sharding, Kernels& kernels, double max_norm,
                                        double grad_scale = 1.0);

// The same without waiting for the device: {norm, scale} as fp32 [2] in device memory, in the order
// of the compute stream. The second element is AdamW::Step's `grad_factor`; NaN as above.
absl::StatusOr<Tensor> GradNormAndScale(Sharding& sharding, Kernels& kernels, double max_norm,
                                        double grad_scale = 1.0);

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_CLIP_GRAD_NORM_H_
