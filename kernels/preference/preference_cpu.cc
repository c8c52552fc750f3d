// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "zeroth/core/base/ignored_target.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/preference/pair_loss.h"
#include "zeroth/kernels/preference/preference.h"

namespace zeroth::cpu {
namespace {

AnswerSums SumsOf(const PreferenceLossCall& call, int64_t begin, int64_t end) {
  AnswerSums sums;
  for (int64_t row = begin; row < end; ++row) {
    if (call.targets[row] == kIgnoredTarget) continue;
    sums.losses += static_cast<double>(call.losses[row]);
    if (call.reference != nullptr) sums.reference += static_cast<double>(call.reference[row]);
    ++sums.targets;
  }
  return sums;
}

absl::Status PreferenceLoss(const PreferenceLossCall& call, CpuKernels&) {
  const auto divisor = static_cast<double>(*call.divisor);
  const double kl = MeanKl(call.kl, call.kls);
  double sums[PreferenceStatistics::kCount] = {};
  std::fill_n(call.row_weights, call.rows, 0.0f);
  for (int64_t i = 0; i < call.pairs; ++i) {
    const int64_t begin = call.ranges[3 * i];
    const int64_t middle = call.ranges[3 * i + 1];
    const int64_t end = call.ranges[3 * i + 2];
    if (begin == end) continue;
    const PairNumbers pair =
        NumbersOf(call, i, SumsOf(call, begin, middle), SumsOf(call, middle, end), kl);
    for (int64_t row = begin; row < end; ++row) {
      if (call.targets[row] == kIgnoredTarget) continue;
      call.row_weights[row] =
          static_cast<float>((row < middle ? pair.by_first : pair.by_second) / divisor);
    }
    for (int64_t k = 0; k < PreferenceStatistics::kCount; ++k) sums[k] += pair.sums[k];
  }
  for (int64_t i = 0; i < PreferenceStatistics::kCount; ++i) {
    call.statistics[i] = static_cast<float>(sums[i] / divisor);
  }
  return absl::OkStatus();
}
const OnCpu<PreferenceLoss> preference_loss;

}  // namespace
}  // namespace zeroth::cpu
