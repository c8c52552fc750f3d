// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/batches_ahead.h"

#include <utility>

#include "absl/status/status.h"

namespace zeroth {

BatchesAhead::BatchesAhead(DataLoader loader, int64_t count, int64_t first, int64_t end)
    : loader_(std::move(loader)), count_(count), thread_([this, first, end] { Run(first, end); }) {}

BatchesAhead::~BatchesAhead() {
  {
    const absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void BatchesAhead::Run(int64_t first, int64_t end) {
  for (int64_t step = first; step < end; ++step) {
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &BatchesAhead::HasRoom));
      if (stop_) return;
    }
    Step loaded = loader_.LoadMany(step * count_, count_);
    const bool failed = !loaded.ok();
    const absl::MutexLock lock(&mutex_);
    ready_.push_back(std::move(loaded));
    if (failed) return;
  }
  const absl::MutexLock lock(&mutex_);
  ended_ = true;
}

absl::StatusOr<std::vector<Batch>> BatchesAhead::Take() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &BatchesAhead::HasSome));
  if (ready_.empty()) return absl::OutOfRangeError("batches of a step behind the last one");
  // An error stays, since nothing comes behind it.
  if (!ready_.front().ok()) return ready_.front();
  Step step = std::move(ready_.front());
  ready_.pop_front();
  return step;
}

}  // namespace zeroth
