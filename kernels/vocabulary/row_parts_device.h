// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For kernels in which a block processes a row whose vocabulary is divided into parts. A
// PartGradientCall has `parts` times `rows` times kStatistics statistics; the block's row is
// blockIdx.x.

#pragma once

#include <cstdint>

#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth::cuda {

inline constexpr int kRowThreads = 256;
// Stands for the maximum of no logits; every logit is larger.
inline constexpr float kBelowAll = -3.0e38f;

template <int64_t kStatistics>
__device__ const float* StatisticsOf(const PartGradientCall& call, int64_t part) {
  return call.statistics + (part * call.rows + blockIdx.x) * kStatistics;
}

// The maximum and the sum of exponentials of a whole row.
struct WholeSum {
  float max = kBelowAll;
  float sum = 0.0f;
};

// Combines the maxima and sums of the parts, which are the statistics `at` and `at` + 1.
template <int64_t kStatistics>
__device__ WholeSum Combine(const PartGradientCall& call, int at) {
  WholeSum all;
  for (int64_t part = 0; part < call.parts; ++part) {
    all.max = fmaxf(all.max, StatisticsOf<kStatistics>(call, part)[at]);
  }
  for (int64_t part = 0; part < call.parts; ++part) {
    const float* const of_part = StatisticsOf<kStatistics>(call, part) + at;
    all.sum = __fmaf_rn(of_part[1], expf(of_part[0] - all.max), all.sum);
  }
  return all;
}

// Adds the statistic `at` of the parts in their order.
template <int64_t kStatistics>
__device__ float SumOfParts(const PartGradientCall& call, int at) {
  float sum = 0.0f;
  for (int64_t part = 0; part < call.parts; ++part) {
    sum = __fadd_rn(sum, StatisticsOf<kStatistics>(call, part)[at]);
  }
  return sum;
}

// Returns the factor of a loss's gradient.
__device__ inline float GradientFactor(const PartGradientCall& call) {
  return *call.divisor == 0.0f ? 0.0f : call.grad_scale / *call.divisor;
}

// Returns a capped logit's gradient before the cap.
__device__ inline float BeforeCap(const PartGradientCall& call, float logit, float gradient) {
  if (call.logit_cap <= 0.0f) return gradient;
  const float t = logit / call.logit_cap;
  return gradient * __fmaf_rn(-t, t, 1.0f);
}

}  // namespace zeroth::cuda
