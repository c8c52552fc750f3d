// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_ADAMW_H_
#define ZEROTH_KERNELS_CUDA_ADAMW_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/kernels/cuda/adamw_plan.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// One step of every range, in place, in the launches of PlanAdamW. One pass over the memory: 28
// bytes an element in fp32, 14 in bf16 and 10.1 with 8-bit moments of bf16 parameters and
// gradients.
absl::Status AdamW(absl::Span<const AdamWCall> calls, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_ADAMW_H_
