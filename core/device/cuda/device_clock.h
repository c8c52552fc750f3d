// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"

namespace zeroth::cuda {

// Tells when events of one device happened. CUDA returns the time between two events in
// milliseconds as a float, whose resolution falls with that time, to 8 ms after a day. So the clock
// measures an event from a recent mark, and adds up the times between marks in double. Thread-safe.
class DeviceClock {
 public:
  using HostTime = std::chrono::steady_clock::time_point;

  // An event in the past, from which later events are measured.
  class Mark {
   public:
    // Owns `event`.
    explicit Mark(cudaEvent_t event) : event_(event) {}
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

    // The time of `event`, in seconds since the clock's first mark. The event must be done, and
    // have happened after this mark.
    absl::StatusOr<double> SecondsAt(cudaEvent_t event) const;

   private:
    friend class DeviceClock;
    const cudaEvent_t event_;
    double seconds_ = 0;
  };

  // For this long, floats of milliseconds resolve half a microsecond, as CUDA's events do.
  static constexpr std::chrono::seconds kFreshFor{4};

  // Returns the process's clock of the device with CUDA ordinal `ordinal`.
  static DeviceClock& Of(int ordinal);
  // `now` returns the host's time.
  explicit DeviceClock(int ordinal, HostTime (*now)() = &std::chrono::steady_clock::now)
      : ordinal_(ordinal), now_(now) {}
  ~DeviceClock();

  // Returns a mark for events that are recorded next. The clock records it on a separate stream, so
  // that it waits for no other work. Makes `ordinal` the current device.
  absl::StatusOr<std::shared_ptr<const Mark>> Latest();

 private:
  absl::StatusOr<std::shared_ptr<const Mark>> MakeMark();

  const int ordinal_;
  HostTime (*const now_)();
  std::mutex mutex_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<const Mark> latest_;
  HostTime made_;  // when latest_ was made
};

}  // namespace zeroth::cuda
