// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CPU_WORKSPACE_H_
#define ZEROTH_KERNELS_CPU_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/device/memory.h"

namespace zeroth::cpu {

// Scratch memory of one kernel: a single block that grows to the largest request and is kept for
// the next call, under MemoryCategory::kWorkspace. Kernels that call each other need a workspace
// each. Not thread-safe.
class Workspace {
 public:
  explicit Workspace(Allocator& allocator) : allocator_(allocator) {}
  Workspace(Workspace&&) = default;

  // At least `bytes` uninitialised bytes, 64-byte aligned; valid until the next call. The
  // allocator's error if refused.
  absl::StatusOr<void*> Reserve(size_t bytes);
  absl::StatusOr<float*> ReserveFloats(int64_t count);
  // A workspace for each of `threads` threads that the kernel shares its work with, the first ones
  // of those that there are; valid until this is called with more. Blocks in them are kept, too.
  absl::Span<Workspace> OfThreads(int threads);

 private:
  Allocator& allocator_;  // must outlive this object
  std::shared_ptr<Buffer> block_;
  std::vector<Workspace> of_threads_;
};

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_CPU_WORKSPACE_H_
