// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_CUDA_PLAYBACK_H_
#define ZEROTH_CORE_DEVICE_CUDA_PLAYBACK_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/device/device.h"

namespace zeroth::cuda {

class CudaStream;

// Whose host has a part in each play of a recording: collectives, of which other ranks must hear.
// Called by the thread that plays.
class PlayObserver {
 public:
  virtual ~PlayObserver() = default;
  // The recording is about to be enqueued on `stream`; an error is the play's, and nothing is.
  virtual absl::Status BeforePlay(CudaStream& stream) = 0;
  // It has been, up to `end`.
  virtual absl::Status AfterPlay(CudaStream& stream, const std::shared_ptr<Event>& end) = 0;
};

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

  // `observer` hears of every play.
  void AddObserver(std::shared_ptr<PlayObserver> observer) {
    std::lock_guard<std::mutex> lock(mutex_);
    observers_.push_back(std::move(observer));
  }
  // In the order in which they came.
  std::vector<std::shared_ptr<PlayObserver>> observers() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return observers_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Event> last_;
  std::vector<std::shared_ptr<PlayObserver>> observers_;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_PLAYBACK_H_
