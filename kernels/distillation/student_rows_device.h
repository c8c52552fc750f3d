// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For kernels of a student's loss, alpha T^2 divergence + (1 - alpha) cross-entropy, in which a
// block processes a row.

#pragma once

#include <cstdint>

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/distillation/distillation.h"
#include "zeroth/kernels/vocabulary/row_parts_device.h"

namespace zeroth::cuda {

// Sets the statistics to 0 and returns true if the block's row does not count.
template <int64_t kStatistics>
__device__ bool ClearIfIgnored(const SoftmaxStatisticsCall& call) {
  if (call.targets[blockIdx.x] != kIgnoredTarget) return false;
  if (threadIdx.x < kStatistics) call.statistics[blockIdx.x * kStatistics + threadIdx.x] = 0.0f;
  return true;
}

// Sets the loss and gradients to 0 and returns true if the block's row does not count.
template <typename T>
__device__ bool ClearIfIgnored(const PartGradientCall& call) {
  if (call.targets[blockIdx.x] != kIgnoredTarget) return false;
  if (threadIdx.x == 0) call.losses[blockIdx.x] = 0.0f;
  if (call.dlogits == nullptr) return true;
  T* const out = static_cast<T*>(call.dlogits) + int64_t{blockIdx.x} * call.columns;
  for (int64_t i = threadIdx.x; i < call.columns; i += kRowThreads) out[i] = FromFloat<T>(0.0f);
  return true;
}

// Writes the row's loss. `hard` is the sum at the temperature 1.
template <int64_t kStatistics>
__device__ void WriteLoss(const PartGradientCall& call, const DistillationOptions& options,
                          const WholeSum& hard, float divergence) {
  const float next_token = logf(hard.sum) - (SumOfParts<kStatistics>(call, 2) - hard.max);
  call.losses[blockIdx.x] = options.alpha * options.temperature * options.temperature * divergence +
                            (1.0f - options.alpha) * next_token;
}

}  // namespace zeroth::cuda
