// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/workspace.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::cpu {

absl::StatusOr<void*> Workspace::Reserve(size_t bytes) {
  if (block_ == nullptr || block_->bytes() < bytes) {
    block_.reset();  // before the larger one is allocated, so that both never exist at once
    ZEROTH_ASSIGN_OR_RETURN(block_, allocator_.Allocate(bytes, MemoryCategory::kWorkspace));
  }
  return block_->data();
}

absl::Span<Workspace> Workspace::OfThreads(int threads) {
  while (of_threads_.size() < static_cast<size_t>(threads)) of_threads_.emplace_back(allocator_);
  return absl::MakeSpan(of_threads_).first(static_cast<size_t>(threads));
}

absl::StatusOr<float*> Workspace::ReserveFloats(int64_t count) {
  ZEROTH_ASSIGN_OR_RETURN(void* data, Reserve(static_cast<size_t>(count) * sizeof(float)));
  return static_cast<float*>(data);
}

}  // namespace zeroth::cpu
