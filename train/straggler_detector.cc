// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/straggler_detector.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"

#include "zeroth/core/base/check.h"

namespace zeroth {

void StragglerDetector::Add(int64_t step, absl::Span<const double> waited, double step_seconds) {
  ZEROTH_CHECK(waited.size() == ranks_.size());
  seconds_ += step_seconds;
  if (ranks_.size() < 2) return;
  const double all = std::accumulate(waited.begin(), waited.end(), 0.0);
  const auto others = static_cast<double>(ranks_.size() - 1);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    const double late = (all - waited[i]) / others - waited[i];
    if (rank.sum <= 0) rank.period = {.rank = static_cast<int>(i), .since = step};
    rank.sum = std::max(0.0, rank.sum + late - kTolerated * step_seconds);
    Straggler& period = rank.period;
    const auto before = static_cast<double>(step - period.since);
    period.mean_seconds = (period.mean_seconds * before + late) / (before + 1);
    period.worst_seconds = std::max(period.worst_seconds, late);
    period.seconds = std::max(0.0, late);
    period.until = step;
    if (rank.sum > worst_sum_) {
      worst_sum_ = rank.sum;
      worst_ = period;
    }
  }
}

std::optional<Straggler> StragglerDetector::now() const {
  const auto latest = std::max_element(ranks_.begin(), ranks_.end(),
                                       [](const Rank& a, const Rank& b) { return a.sum < b.sum; });
  if (latest == ranks_.end() || latest->sum <= 0) return std::nullopt;
  return latest->period;
}

std::optional<Straggler> StragglerDetector::worst() const {
  if (worst_sum_ <= std::max(kTolerated * seconds_, kLeastSeconds)) return std::nullopt;
  return worst_;
}

std::string StragglerText(const Straggler& late) {
  return absl::StrFormat(
      "rank %d from step %d to %d: the others waited %.1f ms a step for it, and %.1f ms at most",
      late.rank, late.since, late.until, late.mean_seconds * 1e3, late.worst_seconds * 1e3);
}

}  // namespace zeroth
