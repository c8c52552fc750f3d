// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/memory.h"

namespace zeroth::cpu {

// Scratch memory of a kernel: one block that grows to the largest request and is kept for the next
// call, under MemoryCategory::kWorkspace. A kernel that calls another one needs a separate
// workspace. Not thread-safe.
class Workspace {
 public:
  explicit Workspace(Allocator& allocator) : allocator_(allocator) {}
  Workspace(Workspace&&) = default;

  // Returns at least `bytes` uninitialised bytes, 64-byte aligned and valid until the next call.
  // Fails with the allocator's error.
  absl::StatusOr<void*> Reserve(size_t bytes) {
    if (block_ == nullptr || block_->bytes() < bytes) {
      block_.reset();  // before the larger one is allocated, so that both never exist at once
      ZEROTH_ASSIGN_OR_RETURN(block_, allocator_.Allocate(bytes, MemoryCategory::kWorkspace));
    }
    return block_->data();
  }
  absl::StatusOr<float*> ReserveFloats(int64_t count) {
    ZEROTH_ASSIGN_OR_RETURN(void* data, Reserve(static_cast<size_t>(count) * sizeof(float)));
    return static_cast<float*>(data);
  }

  // Returns one workspace for each of the `threads` threads of a kernel. They are valid until a
  // call with more threads, and keep their blocks.
  absl::Span<Workspace> OfThreads(int threads) {
    while (of_threads_.size() < static_cast<size_t>(threads)) of_threads_.emplace_back(allocator_);
    return absl::MakeSpan(of_threads_).first(static_cast<size_t>(threads));
  }

 private:
  Allocator& allocator_;  // must outlive this object
  std::shared_ptr<Buffer> block_;
  std::vector<Workspace> of_threads_;
};

}  // namespace zeroth::cpu
