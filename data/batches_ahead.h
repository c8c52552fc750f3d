// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_BATCHES_AHEAD_H_
#define ZEROTH_DATA_BATCHES_AHEAD_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/loader.h"

namespace zeroth {

// Loads the batches of coming steps in a thread of its own, so that a step waits for data only if
// loading takes longer than computing. The batches are those of the loader. Take is for one thread.
class BatchesAhead {
 public:
  // Number of steps that are loaded ahead, so that one slow load does not make its step wait.
  static constexpr size_t kSteps = 2;

  // A step takes the micro-batches [step * count, (step + 1) * count) of `loader`. The thread loads
  // the steps [first, end).
  BatchesAhead(DataLoader loader, int64_t count, int64_t first, int64_t end);
  // Waits for the batch that is being loaded.
  ~BatchesAhead();
  BatchesAhead(const BatchesAhead&) = delete;
  BatchesAhead& operator=(const BatchesAhead&) = delete;

  // Returns the next step's micro-batches, waiting if they are not loaded yet. An error of the
  // loader is returned by this and all later calls. OutOfRange after the last step.
  absl::StatusOr<std::vector<Batch>> Take();

 private:
  using Step = absl::StatusOr<std::vector<Batch>>;

  void Run(int64_t first, int64_t end);
  const DataLoader loader_;
  const int64_t count_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Step> ready_;
  bool stop_ = false;   // the consumer is gone
  bool ended_ = false;  // all steps are loaded
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_BATCHES_AHEAD_H_
