// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Device memory that NCCL can register, and what a rank has of all that registering takes.

#ifndef ZEROTH_CORE_COMM_NCCL_NCCL_MEMORY_H_
#define ZEROTH_CORE_COMM_NCCL_NCCL_MEMORY_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/comm/nccl/copy_engine.h"
#include "zeroth/core/device/memory.h"

namespace zeroth::nccl {

// By ncclMemAlloc: physical memory that other processes may map, in pieces of the driver's
// granularity (2 MiB). Thread-safe.
class NcclMemory final : public MemorySource {
 public:
  // `device` is CUDA's number.
  explicit NcclMemory(int device) : device_(device) {}

  absl::StatusOr<void*> Allocate(size_t bytes) override;
  // Of memory that no stream works on: unlike cudaFree, unmapping does not wait.
  void Free(void* data, size_t bytes) override;
  // Communicators are being aborted, whose windows stay until they are freed: until Release, what
  // is given to Free stays allocated.
  void Hold();
  void Release();
  // Whether all of [data, data + bytes) is part of one allocation.
  bool Contains(const void* data, size_t bytes) const;

 private:
  const int device_;
  mutable std::mutex mutex_;
  std::map<const char*, size_t> allocated_;
  bool holds_ = false;
  std::vector<void*> held_;  // given to Free meanwhile
};

// This rank's, with memory of `device`. `mode`: LaunchOptions::nccl_copy_engine.
RankAbility OwnAbility(const std::string& mode, int device);

}  // namespace zeroth::nccl

#endif  // ZEROTH_CORE_COMM_NCCL_NCCL_MEMORY_H_
