// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_CUDA_PLAYBACK_H_
#define ZEROTH_CORE_DEVICE_CUDA_PLAYBACK_H_

#include <memory>
#include <mutex>
#include <utility>

#include "zeroth/core/device/device.h"

namespace zeroth::cuda {

// What a recording shares with the streams that are being recorded and with the events that were
// recorded in them: where its end is when it was played, which is what CUDA's own handles of those
// events do not know. Thread-safe.
class Playback {
 public:
  // The end of the latest play; nullptr before the first.
  std::shared_ptr<Event> last() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_;
  }
  void set_last(std::shared_ptr<Event> end) {
    std::lock_guard<std::mutex> lock(mutex_);
    last_ = std::move(end);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Event> last_;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_PLAYBACK_H_
