// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_NCCL_NCCL_WINDOW_H_
#define ZEROTH_CORE_COMM_NCCL_NCCL_WINDOW_H_

#include <nccl.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/nccl/nccl_handle.h"

namespace zeroth::nccl {

// The memory that one communicator of the library knows. Its communicator and the registrations
// share it, since either may go first: the library's own stays until it knows none. Thread-safe.
class Windows {
 public:
  explicit Windows(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}

  // Takes `window`, which covers [data, data + bytes).
  void Add(const void* data, size_t bytes, ncclWindow_t window);
  // The library is told to forget what begins at `data`.
  void Remove(const void* data);
  // Whether all of [data, data + bytes) lies in one window.
  bool Contains(const void* data, size_t bytes) const;

 private:
  struct Window {
    size_t bytes = 0;
    ncclWindow_t window = nullptr;
  };

  const std::shared_ptr<Handle> handle_;
  mutable std::mutex mutex_;
  std::map<const char*, Window> windows_;
};

// Of memory that begins at `data`.
class WindowRegistration final : public MemoryRegistration {
 public:
  WindowRegistration(std::shared_ptr<Windows> windows, const void* data)
      : windows_(std::move(windows)), data_(data) {}
  ~WindowRegistration() override { windows_->Remove(data_); }
  WindowRegistration(const WindowRegistration&) = delete;
  WindowRegistration& operator=(const WindowRegistration&) = delete;

 private:
  const std::shared_ptr<Windows> windows_;
  const void* const data_;
};

}  // namespace zeroth::nccl

#endif  // ZEROTH_CORE_COMM_NCCL_NCCL_WINDOW_H_
