// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Asynchronous copies for the emulated device, as late as the hardware may make them: a destination
// holds NaNs from the start of its copy until somebody waits for it, so that reading too early, or
// overwriting data that others still read, shows in the result. The thread sanitizer sees a thread
// write the destination at the start and again at the wait, and read the source then.

#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "zeroth/core/device/cuda/kernel_language.h"

namespace zeroth::cuda::emulation {

// The copies of one CUDA thread.
class PendingCopies {
 public:
  // Copies zeros if `from` is null.
  void Begin(void* to, const void* from, size_t bytes) {
    std::memset(to, 0xff, bytes);
    open_.push_back({to, from, bytes});
  }
  void Commit() {
    groups_.push_back(std::move(open_));
    open_.clear();
  }
  void Wait(size_t newest) {
    while (groups_.size() > newest) {
      for (const Copy& copy : groups_.front()) {
        if (copy.from == nullptr) {
          std::memset(copy.to, 0, copy.bytes);
        } else {
          std::memcpy(copy.to, copy.from, copy.bytes);
        }
      }
      groups_.pop_front();
    }
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  std::vector<Copy> open_;
  std::deque<std::vector<Copy>> groups_;  // oldest first
};

inline PendingCopies& ThisThreadsCopies() {
  std::shared_ptr<void>& own = ThreadsOwn();
  if (own == nullptr) own = std::make_shared<PendingCopies>();
  return *static_cast<PendingCopies*>(own.get());
}

}  // namespace zeroth::cuda::emulation
