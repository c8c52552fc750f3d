// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_CUDA_DEVICE_CLOCK_H_
#define ZEROTH_CORE_DEVICE_CUDA_DEVICE_CLOCK_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"

namespace zeroth::cuda {

// Tells when events of one device happened. CUDA tells the time between two events in milliseconds
// as a float, whose grain grows with that time: 8 ms after a day. So an event's time is told from a
// mark that is not much older, and only the times of marks are added up, in double. Thread-safe.
class DeviceClock {
 public:
  using HostTime = std::chrono::steady_clock::time_point;

  // Something that has happened, from which later events are told.
  class Mark {
   public:
    // Owns `event`.
    explicit Mark(cudaEvent_t event) : event_(event) {}
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

    // When `event` happened, which it has, and after this mark: in seconds from the clock's first.
    absl::StatusOr<double> SecondsAt(cudaEvent_t event) const;

   private:
    friend class DeviceClock;
    const cudaEvent_t event_;
    double seconds_ = 0;
  };

  // Floats of milliseconds tell half microseconds, which is what CUDA's events can, for so long.
  static constexpr std::chrono::seconds kFreshFor{4};

  // The process's clock of the device with CUDA's number `ordinal`.
  static DeviceClock& Of(int ordinal);
  // `now` tells the host's time.
  explicit DeviceClock(int ordinal, HostTime (*now)() = &std::chrono::steady_clock::now)
      : ordinal_(ordinal), now_(now) {}
  ~DeviceClock();

  // A mark for events that are recorded within moments. Made on a stream of its own, so that it
  // waits for nobody's work; `ordinal` is the current device afterwards.
  absl::StatusOr<std::shared_ptr<const Mark>> Latest();

 private:
  absl::StatusOr<std::shared_ptr<const Mark>> MakeMark();

  const int ordinal_;
  HostTime (*const now_)();
  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<const Mark> latest_;
  HostTime made_;  // latest_
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_DEVICE_CLOCK_H_
