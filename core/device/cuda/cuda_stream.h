// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/device/cuda/data_error.h"
#include "zeroth/core/device/device.h"

namespace zeroth::cuda {

class CudaStream;
class StreamState;

// A condition that must hold before a host that waits for a stream may continue, and that the
// device cannot check: that ranks in other processes have made the same calls. Thread-safe.
class HostCondition {
 public:
  virtual ~HostCondition() = default;
  // Blocks until the condition holds for its first `count` items. Returns an error if it never
  // will.
  virtual absl::Status Await(uint64_t count) = 0;
};

// Is called on the host in each play of a recording, by the thread that plays. Collectives need it
// because other ranks must hear of the play.
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

// The existing streams of a device, the oldest first. Thread-safe.
class LiveStreams {
 public:
  void Add(CudaStream* stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.push_back(stream);
  }
  void Remove(CudaStream* stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase(streams_, stream);
  }
  std::vector<CudaStream*> Get() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return streams_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<CudaStream*> streams_;
};

// A stream of a GPU, on which CUDA kernels and collectives are enqueued.
class CudaStream final : public Stream {
 public:
  // `stream` as a CudaStream. Aborts if it belongs to another kind of device, which is a bug.
  static CudaStream& From(Stream& stream);

  // `ordinal` is the CUDA device ordinal. Memory may be freed while the compute stream still uses
  // it (see caching_allocator.h); for other streams, use Retain. The stream is in `live` for as
  // long as it exists.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(Device& device, int ordinal,
                                                            absl::string_view name, bool is_compute,
                                                            std::shared_ptr<LiveStreams> live);
  // Waits for the enqueued work.
  ~CudaStream() override;

  Device& device() const override { return device_; }
  absl::string_view name() const override { return name_; }
  absl::StatusOr<std::shared_ptr<Event>> Record() override;
  absl::StatusOr<std::shared_ptr<Event>> RecordTime() override;
  // The device waits, and the host continues.
  absl::Status Wait(const std::shared_ptr<Event>& event) override;
  absl::Status Synchronize() override;
  absl::Status status() const override;

  cudaStream_t handle() const { return handle_; }
  bool is_compute() const { return is_compute_; }
  // Keeps `memory` until this device's compute stream has waited for an event that is recorded here
  // later, or the host has waited for this stream. Then it may be freed in the compute stream's
  // order. Does nothing on the compute stream.
  void Retain(std::shared_ptr<const void> memory);
  // From now on, a host that waits for this stream, or for a stream that waits for this one, also
  // waits until `condition` holds for its first `count` items. An error of the condition becomes
  // the stream's.
  void Require(const std::shared_ptr<HostCondition>& condition, uint64_t count);
  // Sets the stream's error if `status` is one, and returns the stream's first error so far.
  // Functions that enqueue return this.
  absl::Status Update(const absl::Status& status);
  // Set by the device while the stream is being recorded (see Device::BeginRecording).
  std::shared_ptr<Playback> playback() const;
  void set_playback(std::shared_ptr<Playback> playback);
  // FailedPrecondition while the stream is being recorded: "cannot `what`".
  absl::Status ExpectNotRecorded(absl::string_view what) const;
  // The word in which kernels on this stream report bad data. The device can write it.
  DataErrorWord* data_error() const;

 private:
  CudaStream(Device& device, int ordinal, absl::string_view name, bool is_compute,
             cudaStream_t handle, std::shared_ptr<StreamState> state,
             std::shared_ptr<LiveStreams> live);
  absl::StatusOr<std::shared_ptr<Event>> RecordEvent(bool timed);

  Device& device_;
  const int ordinal_;
  const std::string name_;
  const bool is_compute_;
  const cudaStream_t handle_;
  const std::shared_ptr<StreamState> state_;  // shared with events, which may outlive the stream
  const std::shared_ptr<LiveStreams> live_;
};

}  // namespace zeroth::cuda
