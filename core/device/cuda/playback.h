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

// Takes part on the host in each play of a recording: collectives do, because other ranks must hear
// of the play. Called by the thread that plays.
class PlayObserver {
 public:
  virtual ~PlayObserver() = default;
  // Called before the recording is enqueued on `stream`. After an error, Play returns the error and
  // enqueues nothing.
  virtual absl::Status BeforePlay(CudaStream& stream) = 0;
  // Called after the recording was enqueued. `end` is the event at its end.
  virtual absl::Status AfterPlay(CudaStream& stream, const std::shared_ptr<Event>& end) = 0;
};

// The state that a recording shares with its streams and with the events that were recorded in it:
// the end of its latest play, which CUDA's handles of those events do not know. Thread-safe.
class Playback {
 public:
  // The end of the latest play; nullptr before the first play.
  std::shared_ptr<Event> last() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return last_;
  }
  void set_last(std::shared_ptr<Event> end) {
    std::lock_guard<std::mutex> lock(mutex_);
    last_ = std::move(end);
  }

  // Calls `observer` at every later play.
  void AddObserver(std::shared_ptr<PlayObserver> observer) {
    std::lock_guard<std::mutex> lock(mutex_);
    observers_.push_back(std::move(observer));
  }
  // In the order in which they were added.
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
