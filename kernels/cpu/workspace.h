// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/device/memory.h"

namespace zeroth::cpu {

// Scratch memory of a kernel: one block that grows to the largest request and is kept for the next
// call, under MemoryCategory::kWorkspace. A kernel that calls another one needs a workspace of its
// own. Not thread-safe.
class Workspace {
 public:
  explicit Workspace(Allocator& allocator) : allocator_(allocator) {}
  Workspace(Workspace&&) = default;

  // Returns at least `bytes` uninitialised bytes, 64-byte aligned and valid until the next call.
  // Fails with the allocator's error.
  absl::StatusOr<void*> Reserve(size_t bytes);
  absl::StatusOr<float*> ReserveFloats(int64_t count);
  // Returns a workspace for each of `threads` threads among which the kernel divides its work. They
  // are valid until a call with more threads, and keep their blocks.
  absl::Span<Workspace> OfThreads(int threads);

 private:
  Allocator& allocator_;  // must outlive this object
  std::shared_ptr<Buffer> block_;
  std::vector<Workspace> of_threads_;
};

}  // namespace zeroth::cpu
