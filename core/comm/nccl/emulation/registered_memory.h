// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory that the emulated NCCL hands out, and the windows of a communicator over it, with the
// rules that the library leaves to its users: what breaks them ends the process, saying what it
// did.

#ifndef ZEROTH_CORE_COMM_NCCL_EMULATION_REGISTERED_MEMORY_H_
#define ZEROTH_CORE_COMM_NCCL_EMULATION_REGISTERED_MEMORY_H_

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

// NCCL declares it and never defines it; its own there and ours here.
struct ncclWindow_vidmem {
  uint64_t number = 0;  // of its communicator's registrations, from 1
  const char* data = nullptr;
  size_t bytes = 0;
  std::atomic<int> uses{0};  // calls that are enqueued
};

namespace zeroth::nccl::emulation {

// Of the process; thread-safe.
ncclResult_t AllocateMemory(void** data, size_t bytes);
// Ends the process if a window covers the memory.
ncclResult_t FreeMemory(void* data);
// Whether all of [data, data + bytes) is part of one allocation.
bool IsAllocated(const void* data, size_t bytes);

// What a call finds of a buffer: no window, or one, and how far into it the buffer begins.
struct Place {
  std::shared_ptr<ncclWindow_vidmem> window;
  uint64_t offset = 0;
};

// Of one rank's communicator. Thread-safe.
class WindowSet {
 public:
  // Forgets them all, as the library does when their communicator goes.
  ~WindowSet();
  ncclWindow_t Add(const void* data, size_t bytes);
  // False if there is no such window. Ends the process if a call still uses it.
  bool Remove(ncclWindow_t window);
  Place Find(const void* data, size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  uint64_t last_ = 0;
  std::vector<std::shared_ptr<ncclWindow_vidmem>> windows_;
};

}  // namespace zeroth::nccl::emulation

#endif  // ZEROTH_CORE_COMM_NCCL_EMULATION_REGISTERED_MEMORY_H_
