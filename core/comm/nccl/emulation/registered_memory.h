// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory of the emulated NCCL, and a communicator's windows over it. It checks the rules that NCCL
// leaves to its users: a violation ends the process with a message.

#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

// NCCL's headers only declare this type. Here it is ours.
struct ncclWindow_vidmem {
  uint64_t number = 0;  // of its communicator's registrations, from 1
  const char* data = nullptr;
  size_t bytes = 0;
  std::atomic<int> uses{0};  // calls that are enqueued
};

namespace zeroth::nccl::emulation {

// The process's allocations. Thread-safe.
ncclResult_t AllocateMemory(void** data, size_t bytes);
// Ends the process if a window covers the memory.
ncclResult_t FreeMemory(void* data);
// True if all of [data, data + bytes) is part of one allocation.
bool IsAllocated(const void* data, size_t bytes);

// The window of a call's buffer, if there is one, and the buffer's offset in it.
struct Place {
  std::shared_ptr<ncclWindow_vidmem> window;
  uint64_t offset = 0;
};

// The windows of one rank's communicator. Thread-safe.
class WindowSet {
 public:
  // Forgets all windows, as NCCL does when it frees their communicator.
  ~WindowSet();
  ncclWindow_t Add(const void* data, size_t bytes);
  // Returns false if there is no such window. Ends the process if a call still uses it.
  bool Remove(ncclWindow_t window);
  Place Find(const void* data, size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  uint64_t last_ = 0;
  std::vector<std::shared_ptr<ncclWindow_vidmem>> windows_;
};

}  // namespace zeroth::nccl::emulation
