// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/batches_ahead.h"

#include <utility>

#include "absl/status/status.h"

namespace zeroth {

BatchesAhead::BatchesAhead(DataLoader loader, int64_t count, int64_t first, int64_t end)
    : loader_(std::move(loader)), count_(count), thread_([this, first, end] { Run(first, end); }) {}

BatchesAhead::~BatchesAhead() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void BatchesAhead::Run(int64_t first, int64_t end) {
  for (int64_t step = first; step < end; ++step) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || ready_.size() < kSteps; });
      if (stop_) return;
    }
    Step loaded = loader_.LoadMany(step * count_, count_);
    const bool failed = !loaded.ok();
    const std::lock_guard<std::mutex> lock(mutex_);
    ready_.push_back(std::move(loaded));
    changed_.notify_one();
    if (failed) return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  changed_.notify_one();
}

absl::StatusOr<std::vector<Batch>> BatchesAhead::Take() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !ready_.empty(); });
  if (ready_.empty()) return absl::OutOfRangeError("batches of a step behind the last one");
  // An error stays in the queue, because the thread ends after it.
  if (!ready_.front().ok()) return ready_.front();
  Step step = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_one();
  return step;
}

}  // namespace zeroth
