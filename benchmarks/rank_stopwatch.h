// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// Returns the quantile of `values` at `part`, from 0 (the smallest) to 1 (the largest).
inline double Quantile(std::vector<double> values, double part) {
  const auto place = static_cast<int64_t>(part * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<size_t>(place)];
}
inline double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

// Runs a collective in place: each rank's shard is its slice of `full`.
inline absl::Status RunCollective(CollectiveOp op, Communicator& world, const Tensor& full,
                                  Stream& stream) {
  const int64_t count = full.numel() / world.size();
  const Tensor piece = full.View(world.rank() * count, Shape({count}));
  const absl::string_view label = CollectiveOpName(op);
  if (op == CollectiveOp::kAllGather) return world.AllGather(piece, full, stream, label);
  if (op == CollectiveOp::kAllReduce) return world.AllReduce(full, ReduceOp::kMean, stream, label);
  return world.ReduceScatter(full, piece, ReduceOp::kMean, stream, label);
}

// Times work that all ranks of one process do together; the ranks share one stopwatch.
class RankStopwatch {
 public:
  explicit RankStopwatch(int ranks)
      : begin_(static_cast<size_t>(ranks)), end_(static_cast<size_t>(ranks)) {}

  // Collective: runs `work` on every rank, and returns to all of them the seconds from the first
  // rank's start to the last rank's end. The time of a single rank would miss work that others did
  // while it had no core.
  absl::StatusOr<double> Time(Communicator& world, Stream& stream,
                              const std::function<absl::Status()>& work) {
    const auto rank = static_cast<size_t>(world.rank());
    ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "ready"));
    begin_[rank] = std::chrono::steady_clock::now();
    ZEROTH_RETURN_IF_ERROR(work());
    end_[rank] = std::chrono::steady_clock::now();
    ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "done"));
    const auto first = *std::min_element(begin_.begin(), begin_.end());
    const auto last = *std::max_element(end_.begin(), end_.end());
    ZEROTH_RETURN_IF_ERROR(world.Barrier(stream, "read"));
    return std::chrono::duration<double>(last - first).count();
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> begin_;
  std::vector<std::chrono::steady_clock::time_point> end_;
};

}  // namespace zeroth
