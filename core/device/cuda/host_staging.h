// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_DEVICE_CUDA_HOST_STAGING_H_
#define ZEROTH_CORE_DEVICE_CUDA_HOST_STAGING_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/core/device/cuda/cuda_stream.h"

namespace zeroth::cuda {

// Pinned host memory through which copies to the device pass. From pageable memory, the driver
// would copy only after it has waited for the stream. Thread-safe.
class HostStaging {
 public:
  static constexpr size_t kSlotBytes = size_t{4} << 20;
  static constexpr size_t kSlots = 4;

  HostStaging() = default;
  // The streams that were copied on must be idle.
  ~HostStaging();
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;

  // Copies `bytes` from host memory to `dst` on `stream`. `src` may be reused when this returns.
  // Waits for the device only if all slots are in use.
  absl::Status CopyToDevice(void* dst, const void* src, size_t bytes, CudaStream& stream);

 private:
  struct Slot {
    void* data = nullptr;
    std::shared_ptr<Event> last_use;
  };
  // Returns a slot that no copy reads any more.
  absl::StatusOr<Slot> TakeLocked();

  std::mutex mutex_;
  size_t made_ = 0;
  std::deque<Slot> slots_;  // the one used longest ago first
  // Slots of failed copies. Whether the device still reads them is unknown, so they are not reused.
  std::vector<void*> lost_;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_HOST_STAGING_H_
