// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_FP8_H_
#define ZEROTH_KERNELS_CUDA_FP8_H_

#include "absl/status/status.h"

#include "zeroth/kernels/calls.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// Two passes over the values: for the largest magnitude, and for the codes, both ways at once. The
// host does not wait for the first.
absl::Status CastFp8(const CastFp8Call& call, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_FP8_H_
