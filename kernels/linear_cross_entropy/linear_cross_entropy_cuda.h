// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CUDA_H_
#define ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CUDA_H_

#include <cstddef>
#include <cstdint>

#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy.h"

namespace zeroth::cuda {

// How a call is cut into chunks of rows, and where its scratch memory, 256-byte aligned, holds
// what. Logits are fp32. Their gradients overwrite them row by row, in the call's dtype, for the
// products that follow.
struct LossPlan {
  int64_t chunk_rows = 0;  // number of rows whose logits exist at a time
  // The vocabulary, rounded up to a multiple of 8: the width of logits and of the products.
  // Products of other sizes run on slow kernels.
  int64_t words = 0;
  // If the vocabulary is shorter: the weight is copied to scratch memory, with rows of zeros added.
  bool pads_weight = false;
  // dweight is summed over chunks in fp32 scratch memory, and then rounded once.
  bool sums_beside = false;
  size_t count_offset = 0;
  size_t losses_offset = 0;
  size_t logits_offset = 0;
  size_t sums_offset = 0;
  size_t weight_offset = 0;
  size_t scratch_bytes = 0;
};
LossPlan PlanLoss(const LinearCrossEntropyCall& call);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_LINEAR_CROSS_ENTROPY_LINEAR_CROSS_ENTROPY_CUDA_H_
