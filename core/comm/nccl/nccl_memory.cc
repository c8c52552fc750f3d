// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_memory.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/cuda_recording.h"
#include "zeroth/core/device/cuda/cuda_status.h"

namespace zeroth::nccl {

absl::StatusOr<void*> NcclMemory::Allocate(size_t bytes) {
  const cuda::AllowDuringCapture allow;
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaSetDevice(device_));
  void* data = nullptr;
  const ncclResult_t result = ncclMemAlloc(&data, bytes);
  if (result != ncclSuccess) {
    static_cast<void>(cudaGetLastError());  // so that the next call does not report it
    return absl::ResourceExhaustedError(
        absl::StrCat("ncclMemAlloc of ", bytes, " bytes on cuda:", device_,
                     ": NCCL: ", ncclGetErrorString(result),
                     "; use a smaller batch or model, more ranks, or --nccl_copy_engine=off, which "
                     "needs no such memory"));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  allocated_[static_cast<const char*>(data)] = bytes;
  return data;
}

void NcclMemory::Free(void* data, size_t) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    allocated_.erase(static_cast<const char*>(data));
    if (holds_) {
      held_.push_back(data);
      return;
    }
  }
  const cuda::AllowDuringCapture allow;
  // Errors are ignored: when a process ends, CUDA may be gone before the last tensor.
  static_cast<void>(cudaSetDevice(device_));
  static_cast<void>(ncclMemFree(data));
}

void NcclMemory::Hold() {
  std::lock_guard<std::mutex> lock(mutex_);
  holds_ = true;
}

void NcclMemory::Release() {
  std::vector<void*> held;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    holds_ = false;
    held = std::exchange(held_, {});
  }
  for (void* data : held) Free(data, 0);
}

bool NcclMemory::Contains(const void* data, size_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  std::lock_guard<std::mutex> lock(mutex_);
  auto after = allocated_.upper_bound(begin);
  if (after == allocated_.begin()) return false;
  --after;
  return static_cast<size_t>(begin - after->first) + bytes <= after->second;
}

}  // namespace zeroth::nccl
