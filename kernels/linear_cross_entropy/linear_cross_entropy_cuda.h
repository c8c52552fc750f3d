// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CUDA_H_
#define ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CUDA_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/device/cuda/data_error.h"
#include "zeroth/kernels/cuda/cublaslt.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace zeroth::cuda {

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

// What a call has of the device. Logits are fp32; their gradients overwrite them row by row, in
// `dtype`, for the products that follow.
struct LossMemory {
  void* scratch = nullptr;  // LossPlan::scratch_bytes, 256-byte aligned
  size_t shared_bytes = 0;  // that a block may have
  DataErrorWord* error = nullptr;
};
absl::Status LinearCrossEntropy(const LinearCrossEntropyCall& call, const LossPlan& plan,
                                const LossMemory& memory, CublasLt& blas,
                                const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CUDA_H_
