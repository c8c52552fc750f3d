// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/device_clock.h"

#include <map>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"

namespace zeroth::cuda {

DeviceClock::Mark::~Mark() { static_cast<void>(cudaEventDestroy(event_)); }

absl::StatusOr<double> DeviceClock::Mark::SecondsAt(cudaEvent_t event) const {
  float milliseconds = 0;
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventElapsedTime(&milliseconds, event_, event));
  return seconds_ + static_cast<double>(milliseconds) * 1e-3;
}

DeviceClock& DeviceClock::Of(int ordinal) {
  static std::mutex mutex;
  // Never destroyed, because the last event may be destroyed later.
  static auto* const clocks = new std::map<int, DeviceClock>;
  std::lock_guard<std::mutex> lock(mutex);
  return clocks->try_emplace(ordinal, ordinal).first->second;
}

DeviceClock::~DeviceClock() {
  latest_ = nullptr;
  if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
}

absl::StatusOr<std::shared_ptr<const DeviceClock::Mark>> DeviceClock::Latest() {
  std::lock_guard<std::mutex> lock(mutex_);
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal_));
  const HostTime now = now_();
  if (latest_ != nullptr && now - made_ < kFreshFor) return latest_;
  ZEROTH_ASSIGN_OR_RETURN(latest_, MakeMark());
  made_ = now;
  return latest_;
}

absl::StatusOr<std::shared_ptr<const DeviceClock::Mark>> DeviceClock::MakeMark() {
  if (stream_ == nullptr) {
    ZEROTH_CUDA_RETURN_IF_ERROR(
        cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, /*priority=*/0));
  }
  cudaEvent_t event = nullptr;
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventCreateWithFlags(&event, cudaEventDefault));
  auto mark = std::make_shared<Mark>(event);
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventRecord(event, stream_));
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaEventSynchronize(event));
  if (latest_ != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(mark->seconds_, latest_->SecondsAt(event));
  }
  return mark;
}

}  // namespace zeroth::cuda
