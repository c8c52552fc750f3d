// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Layer norm and RMS norm, which is layer norm without the mean and the bias: one implementation
// serves both.

#ifndef ZEROTH_KERNELS_CPU_NORM_H_
#define ZEROTH_KERNELS_CPU_NORM_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cpu/workspace.h"

namespace zeroth::cpu {

// As LayerNormArgs and RmsNormArgs of kernels.h; RMS norm has neither beta nor mean.
struct NormCall {
  int64_t rows = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;  // of x, residual, sum, gamma, beta and y: fp32, bf16 or fp16
  const void* x = nullptr;
  const void* residual = nullptr;  // or null
  void* sum = nullptr;             // with residual only
  const void* gamma = nullptr;
  const void* beta = nullptr;
  float eps = 0;
  void* y = nullptr;
  float* mean = nullptr;
  float* rstd = nullptr;
};

void LayerNorm(const NormCall& call);
void RmsNorm(const NormCall& call);

// As LayerNormBackwardArgs and RmsNormBackwardArgs; dx may be dy.
struct NormBackwardCall {
  int64_t rows = 0;
  int64_t dim = 0;
  DType dtype = DType::kFloat32;  // of dy, x, gamma and dx: fp32, bf16 or fp16
  const void* dy = nullptr;
  const void* x = nullptr;
  const void* gamma = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  void* dx = nullptr;
  bool accumulate_dx = false;
  DType grad_dtype = DType::kFloat32;  // of dgamma and dbeta: fp32, bf16 or fp16
  void* dgamma = nullptr;              // or null
  bool accumulate_dgamma = false;
  void* dbeta = nullptr;  // or null
  bool accumulate_dbeta = false;
};

// Fail only when the workspace is refused.
absl::Status LayerNormBackward(const NormBackwardCall& call, Workspace& workspace);
absl::Status RmsNormBackward(const NormBackwardCall& call, Workspace& workspace);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_NORM_H_
