// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_ADAMW_H_
#define ZEROTH_KERNELS_CUDA_ADAMW_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw_coefficients.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// One step in place, as AdamWArgs says; `on_device` is in device memory and counts instead of
// `coefficients`, or null; `grad_factor` is one float in device memory, or null. One pass over the
// memory: 28 bytes an element with fp32 gradients.
absl::Status AdamW(int64_t count, const AdamWCoefficients& coefficients,
                   const AdamWCoefficients* on_device, float* param, const void* grad,
                   DType grad_dtype, float* m, float* v, const float* grad_factor,
                   const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_ADAMW_H_
