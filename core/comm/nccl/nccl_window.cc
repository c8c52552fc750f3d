// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_window.h"

#include "zeroth/core/base/check.h"

namespace zeroth::nccl {

void Windows::Add(const void* data, size_t bytes, ncclWindow_t window) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool fresh = windows_.emplace(static_cast<const char*>(data), Window{bytes, window}).second;
  ZEROTH_CHECK(fresh);
}

void Windows::Remove(const void* data) {
  ncclWindow_t window = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = windows_.find(static_cast<const char*>(data));
    if (found == windows_.end()) return;
    window = found->second.window;
    windows_.erase(found);
  }
  handle_->DeregisterWindow(window);
}

bool Windows::Contains(const void* data, size_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  std::lock_guard<std::mutex> lock(mutex_);
  auto after = windows_.upper_bound(begin);
  if (after == windows_.begin()) return false;
  --after;
  return static_cast<size_t>(begin - after->first) + bytes <= after->second.bytes;
}

}  // namespace zeroth::nccl
