// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_NORM_H_
#define ZEROTH_KERNELS_CUDA_NORM_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// LayerNormArgs and RmsNormArgs as pointers; a norm without `mean` is RMSNorm. Null where
// undefined.
struct NormCall {
  int64_t rows = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;  // of everything but the statistics
  const void* x = nullptr;
  const void* residual = nullptr;
  void* sum = nullptr;
  const void* gamma = nullptr;
  const void* beta = nullptr;
  float eps = 0;
  void* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
};
absl::Status Norm(const NormCall& call, const LaunchTarget& target);

struct NormBackwardCall {
  int64_t rows = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  void* dx = nullptr;
  bool accumulate_dx = false;
  DType grad_dtype = DType::kFloat32;  // of dgamma and dbeta
  void* dgamma = nullptr;
  bool accumulate_dgamma = false;
  void* dbeta = nullptr;
  bool accumulate_dbeta = false;
  float* scratch = nullptr;  // ColumnSumScratch(rows, dim, 2)
};
absl::Status NormBackward(const NormBackwardCall& call, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_NORM_H_
