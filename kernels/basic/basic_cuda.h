// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_BASIC_BASIC_CUDA_H_
#define ZEROTH_KERNELS_BASIC_BASIC_CUDA_H_

#include "absl/status/status.h"

#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

absl::Status Basic(const BasicCall& call, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_BASIC_BASIC_CUDA_H_
