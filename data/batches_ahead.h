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

// Has a thread of its own load what the coming steps need while the present one computes, so that
// a step waits for data only where loading takes longer than computing. What it gives is what the
// loader does: a thread changes when something is read, not what. Take is for one thread.
class BatchesAhead {
 public:
  // Steps that are loaded before anybody asks for them: one that takes longer than others does not
  // make its step wait.
  static constexpr size_t kSteps = 2;

  // Micro-batches [step * count, (step + 1) * count) of `loader` for the steps from `first` to
  // before `end`, at which the thread ends.
  BatchesAhead(DataLoader loader, int64_t count, int64_t first, int64_t end);
  // Waits for the batch that is being read.
  ~BatchesAhead();
  BatchesAhead(const BatchesAhead&) = delete;
  BatchesAhead& operator=(const BatchesAhead&) = delete;

  // The next step's, waiting for them where need be; the loader's error, and the same from then on.
  // OutOfRange behind the last step.
  absl::StatusOr<std::vector<Batch>> Take();

 private:
  using Step = absl::StatusOr<std::vector<Batch>>;

  void Run(int64_t first, int64_t end);
  const DataLoader loader_;
  const int64_t count_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::deque<Step> ready_;
  bool stop_ = false;   // nobody takes more
  bool ended_ = false;  // nothing more comes
  std::thread thread_;  // last: it uses the rest
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_BATCHES_AHEAD_H_
