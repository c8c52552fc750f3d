// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <unistd.h>

#include <utility>

namespace zeroth {

// Owns a file descriptor of any kind, and closes it. Movable.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  // A negative number means none, so that results of open(2) and the like can be passed directly.
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileDescriptor() {
    if (is_open()) static_cast<void>(close(descriptor_));
  }

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  // Leaves the descriptor to the caller, to close it and see the result.
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

}  // namespace zeroth
