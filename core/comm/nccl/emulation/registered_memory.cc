// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/emulation/registered_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace zeroth::nccl::emulation {
namespace {

struct Allocation {
  void* raw = nullptr;  // as the runtime returned it
  size_t bytes = 0;
  int windows = 0;
};

struct Allocations {
  std::mutex mutex;
  std::map<const char*, Allocation> by_address;

  static Allocations& Get() {
    static auto* const allocations = new Allocations;
    return *allocations;
  }
  // The allocation that holds `data`; nullptr if none does. The mutex must be held.
  Allocation* Find(const char* data, size_t bytes) {
    auto after = by_address.upper_bound(data);
    if (after == by_address.begin()) return nullptr;
    --after;
    const bool inside = static_cast<size_t>(data - after->first) + bytes <= after->second.bytes;
    return inside ? &after->second : nullptr;
  }
};

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "emulated NCCL: %s\n", what);
  std::abort();
}

void CountWindows(const char* data, size_t bytes, int change) {
  Allocations& all = Allocations::Get();
  std::lock_guard<std::mutex> lock(all.mutex);
  Allocation* const allocation = all.Find(data, bytes);
  if (allocation == nullptr) Die("a window over memory that is not allocated");
  allocation->windows += change;
}

}  // namespace

ncclResult_t AllocateMemory(void** data, size_t bytes) {
  Allocation allocation;
  allocation.bytes = bytes;
  if (cudaMalloc(&allocation.raw, bytes + NCCL_WIN_REQUIRED_ALIGNMENT) != cudaSuccess) {
    return ncclUnhandledCudaError;
  }
  const auto address = reinterpret_cast<uintptr_t>(allocation.raw);
  constexpr uintptr_t kMask = NCCL_WIN_REQUIRED_ALIGNMENT - 1;
  *data = static_cast<char*>(allocation.raw) + (((address + kMask) & ~kMask) - address);
  Allocations& all = Allocations::Get();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.by_address[static_cast<const char*>(*data)] = allocation;
  return ncclSuccess;
}

ncclResult_t FreeMemory(void* data) {
  if (data == nullptr) return ncclSuccess;
  void* raw = nullptr;
  {
    Allocations& all = Allocations::Get();
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.by_address.find(static_cast<const char*>(data));
    if (found == all.by_address.end()) return ncclInvalidArgument;
    if (found->second.windows > 0) Die("memory is freed before its windows are deregistered");
    raw = found->second.raw;
    all.by_address.erase(found);
  }
  return cudaFree(raw) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

bool IsAllocated(const void* data, size_t bytes) {
  Allocations& all = Allocations::Get();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.Find(static_cast<const char*>(data), bytes) != nullptr;
}

WindowSet::~WindowSet() {
  for (const auto& window : windows_) CountWindows(window->data, window->bytes, -1);
}

ncclWindow_t WindowSet::Add(const void* data, size_t bytes) {
  auto window = std::make_shared<ncclWindow_vidmem>();
  window->data = static_cast<const char*>(data);
  window->bytes = bytes;
  CountWindows(window->data, bytes, +1);
  std::lock_guard<std::mutex> lock(mutex_);
  window->number = ++last_;
  windows_.push_back(window);
  return window.get();
}

bool WindowSet::Remove(ncclWindow_t window) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const auto& one) { return one.get() == window; });
  if (found == windows_.end()) return false;
  if ((*found)->uses > 0) Die("a window is deregistered while calls use it");
  CountWindows((*found)->data, (*found)->bytes, -1);
  windows_.erase(found);
  return true;
}

Place WindowSet::Find(const void* data, size_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& window : windows_) {
    if (begin < window->data || begin + bytes > window->data + window->bytes) continue;
    return {window, static_cast<uint64_t>(begin - window->data)};
  }
  return {};
}

}  // namespace zeroth::nccl::emulation
