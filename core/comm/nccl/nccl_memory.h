// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Device memory that NCCL can register.

#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/device/memory.h"

namespace zeroth::nccl {

// Memory from ncclMemAlloc: other processes can map it, in pieces of the driver's granularity (2
// MiB). Thread-safe.
class NcclMemory final : public MemorySource {
 public:
  // `device` is the CUDA ordinal.
  explicit NcclMemory(int device) : device_(device) {}

  absl::StatusOr<void*> Allocate(size_t bytes) override;
  // No stream may use the memory: unlike cudaFree, unmapping does not wait.
  void Free(void* data, size_t bytes) override;
  // Delays Free until Release. Called while communicators are being aborted, because their windows
  // stay mapped until they are freed.
  void Hold();
  void Release();
  // True if all of [data, data + bytes) is part of one allocation.
  bool Contains(const void* data, size_t bytes) const;

 private:
  const int device_;
  mutable std::mutex mutex_;
  std::map<const char*, size_t> allocated_;
  bool holds_ = false;
  std::vector<void*> held_;  // freed between Hold and Release
};

}  // namespace zeroth::nccl
