// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/expert_load.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace zeroth {

std::optional<ExpertLoad> LoadOf(absl::Span<const int64_t> experts,
                                 absl::Span<const float> counts) {
  ExpertLoad load;
  for (const int64_t count : experts) {
    const absl::Span<const float> layer = counts.first(static_cast<size_t>(count));
    counts.remove_prefix(layer.size());
    const double sum = std::accumulate(layer.begin(), layer.end(), 0.0);
    if (sum == 0) return std::nullopt;
    const double mean = sum / static_cast<double>(count);
    load.largest = std::max(load.largest, *std::max_element(layer.begin(), layer.end()) / mean);
    load.unused += static_cast<double>(std::count(layer.begin(), layer.end(), 0.0f));
  }
  const int64_t all = std::accumulate(experts.begin(), experts.end(), int64_t{0});
  if (all == 0) return std::nullopt;
  load.unused /= static_cast<double>(all);
  return load;
}

}  // namespace zeroth
