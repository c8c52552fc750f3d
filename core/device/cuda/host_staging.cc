// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/host_staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_status.h"

namespace zeroth::cuda {

HostStaging::~HostStaging() {
  for (const Slot& slot : slots_) static_cast<void>(cudaFreeHost(slot.data));
  for (void* const data : lost_) static_cast<void>(cudaFreeHost(data));
}

absl::StatusOr<HostStaging::Slot> HostStaging::TakeLocked() {
  const bool oldest_is_free = !slots_.empty() && slots_.front().last_use->IsDone();
  if (!oldest_is_free && made_ < kSlots) {
    Slot slot;
    ZEROTH_CUDA_RETURN_IF_ERROR(cudaMallocHost(&slot.data, kSlotBytes));
    ++made_;
    return slot;
  }
  // An error is the stream's, which reports it at its next call.
  slots_.front().last_use->Synchronize().IgnoreError();
  Slot slot = std::move(slots_.front());
  slots_.pop_front();
  return slot;
}

absl::Status HostStaging::CopyToDevice(void* dst, const void* src, size_t bytes,
                                       CudaStream& stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t done = 0; done < bytes; done += kSlotBytes) {
    ZEROTH_RETURN_IF_ERROR(stream.status());
    const size_t count = std::min(kSlotBytes, bytes - done);
    ZEROTH_ASSIGN_OR_RETURN(Slot slot, TakeLocked());
    std::memcpy(slot.data, static_cast<const char*>(src) + done, count);
    const absl::Status copied =
        ToStatus(cudaMemcpyAsync(static_cast<char*>(dst) + done, slot.data, count,
                                 cudaMemcpyHostToDevice, stream.handle()),
                 "cudaMemcpyAsync to the device");
    absl::StatusOr<std::shared_ptr<Event>> last_use = stream.Record();
    if (!copied.ok() || !last_use.ok()) {
      lost_.push_back(slot.data);
      --made_;
      return stream.Update(copied.ok() ? last_use.status() : copied);
    }
    slot.last_use = *std::move(last_use);
    slots_.push_back(std::move(slot));
  }
  return absl::OkStatus();
}

}  // namespace zeroth::cuda
