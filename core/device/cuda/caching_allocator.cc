// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/caching_allocator.h"

#include <algorithm>
#include <cstdint>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth::cuda {
namespace {

constexpr size_t kMaxRequestBytes = size_t{1} << 50;

size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

CachingAllocator::CachingAllocator(std::unique_ptr<MemorySource> source, bool exact)
    : source_(std::move(source)), exact_(exact) {}

CachingAllocator::~CachingAllocator() {
  TrimLocked();
  ZEROTH_CHECK(blocks_.empty());
}

size_t CachingAllocator::BlockBytes(size_t bytes, bool exact) {
  if (exact) return std::max<size_t>(bytes, 1);
  if (bytes < kSmallBytes) return std::max(RoundUp(bytes, kAlignment), kAlignment);
  return RoundUp(bytes, kLargeRounding);
}

size_t CachingAllocator::SegmentBytes(size_t block_bytes, bool exact) {
  if (exact) return block_bytes;
  if (block_bytes < kSmallBytes) return kSmallSegmentBytes;
  // One large block to a segment wastes nothing and can be given back alone.
  return block_bytes < kLargeSegmentBytes / 2 ? kLargeSegmentBytes : block_bytes;
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return account_.stats();
}

void CachingAllocator::ResetPeaks() {
  std::lock_guard<std::mutex> lock(mutex_);
  account_.ResetPeaks();
}

void CachingAllocator::Trim() {
  std::lock_guard<std::mutex> lock(mutex_);
  TrimLocked();
}

void CachingAllocator::TrimLocked() {
  for (FreeBlocks& blocks : free_) {
    for (auto at = blocks.begin(); at != blocks.end();) {
      Block* const block = *at;
      ++at;
      if (block->previous != nullptr || block->next != nullptr) continue;  // not a whole segment
      blocks.erase(block);
      source_->Free(block->data, block->bytes);
      account_.AddReserved(-static_cast<int64_t>(block->bytes));
      Erase(block);
    }
  }
}

void CachingAllocator::Erase(Block* block) { blocks_.erase(block->data); }

CachingAllocator::Block* CachingAllocator::TakeFree(size_t block_bytes, bool small) {
  FreeBlocks& blocks = FreeOf(small);
  Block key;
  key.bytes = block_bytes;
  const auto found = blocks.lower_bound(&key);
  if (found == blocks.end()) return nullptr;
  Block* const block = *found;
  // A segment of its own that is much larger stays whole for what needs it.
  if (exact_ ? block->bytes != block_bytes
             : block_bytes >= kLargeSegmentBytes / 2 && block->bytes > 2 * block_bytes) {
    return nullptr;
  }
  blocks.erase(found);
  return block;
}

absl::StatusOr<CachingAllocator::Block*> CachingAllocator::NewSegment(size_t block_bytes,
                                                                      bool small) {
  size_t bytes = SegmentBytes(block_bytes, exact_);
  absl::StatusOr<void*> data = source_->Allocate(bytes);
  if (!data.ok()) {
    // What is kept for later may be what is missing now; then the least that will do.
    TrimLocked();
    data = source_->Allocate(bytes);
    if (!data.ok() && bytes > block_bytes) {
      bytes = block_bytes;
      data = source_->Allocate(bytes);
    }
  }
  ZEROTH_RETURN_IF_ERROR(data.status());
  account_.AddReserved(static_cast<int64_t>(bytes));
  auto block = std::make_unique<Block>();
  block->data = static_cast<char*>(*data);
  block->bytes = bytes;
  block->small = small;
  Block* const made = block.get();
  blocks_.emplace(made->data, std::move(block));
  return made;
}

void CachingAllocator::Split(Block* block, size_t bytes) {
  const size_t rest = block->bytes - bytes;
  // Large blocks keep a small rest: pieces below a megabyte serve no large request.
  if (exact_ || rest < (block->small ? kAlignment : kSmallBytes)) return;
  auto tail = std::make_unique<Block>();
  tail->data = block->data + bytes;
  tail->bytes = rest;
  tail->small = block->small;
  tail->free = true;
  tail->previous = block;
  tail->next = block->next;
  if (tail->next != nullptr) tail->next->previous = tail.get();
  block->next = tail.get();
  block->bytes = bytes;
  FreeOf(tail->small).insert(tail.get());
  blocks_.emplace(tail->data, std::move(tail));
}

void CachingAllocator::JoinNext(Block* block) {
  Block* const next = block->next;
  block->bytes += next->bytes;
  block->next = next->next;
  if (block->next != nullptr) block->next->previous = block;
  Erase(next);
}

absl::StatusOr<void*> CachingAllocator::AllocateRaw(size_t bytes, MemoryCategory category) {
  if (bytes > kMaxRequestBytes) {
    return absl::ResourceExhaustedError("more than the memory of any device");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t block_bytes = BlockBytes(bytes, exact_);
  const bool small = bytes < kSmallBytes;
  Block* block = TakeFree(block_bytes, small);
  if (block == nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(block, NewSegment(block_bytes, small));
  }
  block->free = false;
  Split(block, block_bytes);
  account_.Allocated(bytes, category);
  return static_cast<void*>(block->data);
}

void CachingAllocator::FreeRaw(void* data, size_t bytes, MemoryCategory category) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(data);
  ZEROTH_CHECK(found != blocks_.end());
  Block* block = found->second.get();
  ZEROTH_CHECK(!block->free && bytes <= block->bytes);
  block->free = true;
  account_.Freed(bytes, category);
  if (block->next != nullptr && block->next->free) {
    FreeOf(block->small).erase(block->next);
    JoinNext(block);
  }
  if (block->previous != nullptr && block->previous->free) {
    block = block->previous;
    FreeOf(block->small).erase(block);
    JoinNext(block);
  }
  FreeOf(block->small).insert(block);
}

}  // namespace zeroth::cuda
