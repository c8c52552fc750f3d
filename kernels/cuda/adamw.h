// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_ADAMW_H_
#define ZEROTH_KERNELS_CUDA_ADAMW_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw_coefficients.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// As AdamWArgs, its types checked. Pointers are to device memory.
struct AdamWCall {
  int64_t count = 0;
  AdamWCoefficients coefficients;
  const AdamWCoefficients* on_device = nullptr;  // counts instead, or null
  const float* grad_factor = nullptr;            // one float, or null
  DType param_dtype = DType::kFloat32;
  DType grad_dtype = DType::kFloat32;
  DType moment_dtype = DType::kFloat32;
  void* param = nullptr;
  const void* grad = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  float* m_scale = nullptr;  // null unless moments are uint8
  float* v_scale = nullptr;
  uint64_t stream = 0;
  int64_t first_element = 0;
};

// One step in place. One pass over the memory: 28 bytes an element in fp32, 14 in bf16 and 10.1
// with 8-bit moments of bf16 parameters and gradients.
absl::Status AdamW(const AdamWCall& call, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_ADAMW_H_
