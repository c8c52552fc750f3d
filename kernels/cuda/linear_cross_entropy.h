// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_LINEAR_CROSS_ENTROPY_H_
#define ZEROTH_KERNELS_CUDA_LINEAR_CROSS_ENTROPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/cuda/data_error.h"
#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// LinearCrossEntropyArgs as numbers and pointers; null where undefined.
struct LinearCrossEntropyCall {
  int64_t rows = 0;
  int64_t dim = 0;
  int64_t vocab = 0;
  DType dtype = DType::kFloat32;  // of hidden, weight and dhidden
  const void* hidden = nullptr;
  const void* weight = nullptr;
  const int32_t* targets = nullptr;
  float* loss = nullptr;
  void* dhidden = nullptr;
  DType grad_dtype = DType::kFloat32;  // of dweight
  void* dweight = nullptr;
  bool accumulate_dweight = false;
  float grad_scale = 1.0f;
  DataErrorWord* error = nullptr;
  size_t shared_bytes = 0;  // that a block may have
  void* scratch = nullptr;  // LossPlan::scratch_bytes, 256-byte aligned
};

// How a call is cut up, and what it needs.
struct LossPlan {
  int64_t chunk_rows = 0;     // rows whose logits exist at a time
  int64_t logits_stride = 0;  // elements of fp32 from one row of logits to the next
  // dweight is summed over chunks in fp32 beside it, to be rounded once.
  bool sums_beside = false;
  size_t count_offset = 0;
  size_t losses_offset = 0;
  size_t logits_offset = 0;
  size_t sums_offset = 0;
  size_t scratch_bytes = 0;
};
LossPlan PlanLoss(const LinearCrossEntropyCall& call);

// Logits are fp32; their gradients overwrite them row by row, in `dtype`, for the products that
// follow.
absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, const LossPlan& plan,
                                CublasLt& blas, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_LINEAR_CROSS_ENTROPY_H_
