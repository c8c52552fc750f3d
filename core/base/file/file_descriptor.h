// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <unistd.h>

#include <utility>

namespace zeroth {

// Owns a file descriptor, of a file, a directory, a socket or another thing, and closes it.
// Movable.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  // A negative number stands for none, so that open(2) and its kin can be called in place.
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
