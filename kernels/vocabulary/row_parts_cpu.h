// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For rows whose vocabulary is divided into parts. A PartGradientCall has `parts` times `rows`
// times kStatistics statistics.

#pragma once

#include <cmath>
#include <cstdint>

#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"
#include "zeroth/kernels/vocabulary/vocabulary.h"

namespace zeroth::cpu {

// Writes the first kSoftmaxStatistics statistics of a row's part.
inline void WriteSoftmaxStatistics(const SoftmaxStatisticsCall& call, int64_t row, float* out) {
  const float* const x = call.logits + row * call.columns + call.begin;
  SoftmaxPart(x, call.count, out[0], out[1]);
  const int64_t target = call.targets[row] - call.begin;
  out[2] = target >= 0 && target < call.count ? x[target] : 0.0f;
}

template <int64_t kStatistics>
const float* StatisticsOf(const PartGradientCall& call, int64_t part, int64_t row) {
  return call.statistics + (part * call.rows + row) * kStatistics;
}

// Combines the maxima and sums of a row's parts, which are the statistics `at` and `at` + 1.
template <int64_t kStatistics>
SoftmaxSum Combine(const PartGradientCall& call, int64_t row, int64_t at) {
  return CombineSoftmaxParts(StatisticsOf<kStatistics>(call, 0, row) + at, call.parts,
                             call.rows * kStatistics);
}

// Adds the statistic `at` of a row's parts in their order.
template <int64_t kStatistics>
double SumOfParts(const PartGradientCall& call, int64_t row, int64_t at) {
  double sum = 0;
  for (int64_t part = 0; part < call.parts; ++part) {
    sum += static_cast<double>(StatisticsOf<kStatistics>(call, part, row)[at]);
  }
  return sum;
}

// Returns log(sum of e^x) of the whole row.
inline double LogOf(const SoftmaxSum& all) {
  return static_cast<double>(all.max) + std::log(all.sum);
}

}  // namespace zeroth::cpu
