// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// For rows whose vocabulary is divided into parts. A call has `parts` times `rows` times
// kStatistics statistics.

#pragma once

#include <cmath>
#include <cstdint>

#include "zeroth/kernels/linear_cross_entropy/linear_cross_entropy_cpu.h"

namespace zeroth::cpu {

template <int64_t kStatistics, typename Call>
const float* StatisticsOf(const Call& call, int64_t part, int64_t row) {
  return call.statistics + (part * call.rows + row) * kStatistics;
}

// Combines the maxima and sums of a row's parts, which are the statistics `at` and `at` + 1.
template <int64_t kStatistics, typename Call>
SoftmaxSum Combine(const Call& call, int64_t row, int64_t at) {
  return CombineSoftmaxParts(StatisticsOf<kStatistics>(call, 0, row) + at, call.parts,
                             call.rows * kStatistics);
}

// Adds the statistic `at` of a row's parts in their order.
template <int64_t kStatistics, typename Call>
double SumOfParts(const Call& call, int64_t row, int64_t at) {
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
