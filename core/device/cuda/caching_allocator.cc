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

CachingAllocator::CachingAllocator(std::unique_ptr<MemorySource> source, bool exact,
                                   std::shared_ptr<MemorySource> transport)
    : source_(std::move(source)), exact_(exact), transport_(std::move(transport)) {}

CachingAllocator::~CachingAllocator() {
  ZEROTH_CHECK(pools_.empty());
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
  // A large block gets its own segment, which wastes nothing and can be returned alone.
  return block_bytes < kLargeSegmentBytes / 2 ? kLargeSegmentBytes : block_bytes;
}

void CachingAllocator::TrimLocked() {
  for (FreeBlocks& blocks : free_) {
    // A set erases by position and does not look at the block, which is gone by then.
    std::erase_if(blocks, [&](Block* block) {
      const bool whole = block->IsSegment();
      if (whole) ReturnSegment(block);
      return whole;
    });
  }
}

void CachingAllocator::ReturnSegment(Block* block) {
  (block->transport ? *transport_ : *source_).Free(block->data, block->bytes);
  account_.AddReserved(-static_cast<int64_t>(block->bytes));
  blocks_.erase(block->data);
}

CachingAllocator::Block* CachingAllocator::TakeFreeBlock(size_t block_bytes, bool small) {
  FreeBlocks& blocks = FreeIn(open_pool_, small);
  Block key;
  key.bytes = block_bytes;
  const auto found = blocks.lower_bound(&key);
  if (found == blocks.end()) return nullptr;
  Block* const block = *found;
  // A segment that is much larger than a large request is kept whole for larger ones.
  if (exact_ ? block->bytes != block_bytes
             : block_bytes >= kLargeSegmentBytes / 2 && block->bytes > 2 * block_bytes) {
    return nullptr;
  }
  blocks.erase(found);
  return block;
}

absl::StatusOr<void*> CachingAllocator::AllocateFrom(MemorySource& source, size_t bytes) {
  absl::StatusOr<void*> data = source.Allocate(bytes);
  // An open pool has taken all cached segments, and none may be returned during a recording.
  if (data.ok() || open_pool_ != nullptr) return data;
  TrimLocked();
  return source.Allocate(bytes);
}

CachingAllocator::Block* CachingAllocator::AddSegment(void* data, size_t bytes) {
  account_.AddReserved(static_cast<int64_t>(bytes));
  const auto [at, fresh] = blocks_.emplace(data, std::make_unique<Block>());
  at->second->data = static_cast<char*>(data);
  at->second->bytes = bytes;
  return at->second.get();
}

absl::StatusOr<CachingAllocator::Block*> CachingAllocator::NewSegment(size_t block_bytes,
                                                                      bool small) {
  size_t bytes = SegmentBytes(block_bytes, exact_);
  absl::StatusOr<void*> data = AllocateFrom(*source_, bytes);
  if (!data.ok() && bytes > block_bytes) {
    bytes = block_bytes;  // the least that is enough
    data = source_->Allocate(bytes);
  }
  ZEROTH_RETURN_IF_ERROR(data.status());
  Block* const block = AddSegment(*data, bytes);
  block->small = small;
  block->pool = open_pool_;
  return block;
}

void CachingAllocator::Split(Block* block, size_t bytes) {
  const size_t rest = block->bytes - bytes;
  // A large block keeps a rest below 1 MiB, which no large request could use.
  if (exact_ || rest < (block->small ? kAlignment : kSmallBytes)) return;
  auto tail = std::make_unique<Block>();
  tail->data = block->data + bytes;
  tail->bytes = rest;
  tail->small = block->small;
  tail->free = true;
  tail->touched = block->touched;
  tail->born = block->born;
  tail->pool = block->pool;
  tail->previous = block;
  tail->next = block->next;
  if (tail->next != nullptr) tail->next->previous = tail.get();
  block->next = tail.get();
  block->bytes = bytes;
  FreeOf(*tail).insert(tail.get());
  blocks_.emplace(tail->data, std::move(tail));
}

void CachingAllocator::MergeWithNext(Block* block) {
  Block* const next = block->next;
  block->bytes += next->bytes;
  block->touched |= next->touched;
  block->born = std::min(block->born, next->born);
  block->next = next->next;
  if (block->next != nullptr) block->next->previous = block;
  blocks_.erase(next->data);
}

absl::StatusOr<void*> CachingAllocator::AllocateRaw(size_t bytes, MemoryCategory category) {
  if (bytes > kMaxRequestBytes) {
    return absl::ResourceExhaustedError("more than the memory of any device");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t block_bytes = BlockBytes(bytes, exact_);
  const bool small = bytes < kSmallBytes;
  Block* block = TakeFreeBlock(block_bytes, small);
  if (block == nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(block, NewSegment(block_bytes, small));
  }
  block->free = false;
  Split(block, block_bytes);
  block->touched = true;
  block->born = ++last_born_;
  account_.Allocated(bytes, category);
  if (block->pool != nullptr) block->pool->Use(static_cast<int64_t>(bytes), category);
  return static_cast<void*>(block->data);
}

absl::StatusOr<void*> CachingAllocator::AllocateTransportRaw(size_t bytes,
                                                             MemoryCategory category) {
  if (transport_ == nullptr) return Allocator::AllocateTransportRaw(bytes, category);
  if (bytes > kMaxRequestBytes) {
    return absl::ResourceExhaustedError("more than the memory of any device");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t segment_bytes = std::max<size_t>(bytes, 1);
  ZEROTH_ASSIGN_OR_RETURN(void* const data, AllocateFrom(*transport_, segment_bytes));
  Block* const block = AddSegment(data, segment_bytes);
  block->transport = true;
  block->born = ++last_born_;
  account_.Allocated(bytes, category);
  return data;
}

void CachingAllocator::FreeRaw(void* data, size_t bytes, MemoryCategory category) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = blocks_.find(data);
  ZEROTH_CHECK(found != blocks_.end());
  Block* const block = found->second.get();
  ZEROTH_CHECK(!block->free && !block->held && bytes <= block->bytes);
  account_.Freed(bytes, category);
  if (block->pool != nullptr) {
    block->pool->Use(-static_cast<int64_t>(bytes), category);
    Charge(*block->pool);
  }
  ReturnBlock(block);
}

bool CachingAllocator::MayBeRecorded(const Block& block) const {
  if (block.pool != nullptr) return false;  // stays in its pool while that exists
  return std::any_of(pools_.begin(), pools_.end(), [&](const auto& entry) {
    return entry.second->open || block.born <= entry.second->last_born;
  });
}

void CachingAllocator::ReturnBlock(Block* block) {
  block->held = MayBeRecorded(*block);
  if (block->held) {
    held_.push_back(block);
    return;
  }
  if (block->transport) return ReturnSegment(block);
  block->free = true;
  if (block->next != nullptr && block->next->free) {
    FreeOf(*block).erase(block->next);
    MergeWithNext(block);
  }
  if (block->previous != nullptr && block->previous->free) {
    block = block->previous;
    FreeOf(*block).erase(block);
    MergeWithNext(block);
  }
  FreeOf(*block).insert(block);
}

void CachingAllocator::Pool::Use(int64_t bytes, MemoryCategory category) {
  live[static_cast<size_t>(category)] += bytes;
  live_total += bytes;
  if (live_total <= peak_total) return;
  peak_total = live_total;
  at_peak = live;
}

void CachingAllocator::Charge(Pool& pool) {
  if (pool.open) return;
  for (size_t i = 0; i < pool.charged.size(); ++i) {
    const int64_t beyond = std::max<int64_t>(0, pool.at_peak[i] - pool.live[i]);
    account_.Charge(beyond - pool.charged[i], static_cast<MemoryCategory>(i));
    pool.charged[i] = beyond;
  }
}

template <typename Wanted>
void CachingAllocator::MoveSegments(Pool* from, Pool* to, const Wanted& wanted) {
  for (const bool small : {false, true}) {
    std::erase_if(FreeIn(from, small), [&](Block* block) {
      if (!block->IsSegment() || !wanted(*block)) return false;
      block->pool = to;
      block->touched = false;
      FreeIn(to, small).insert(block);
      return true;
    });
  }
}

CachingAllocator::PoolId CachingAllocator::OpenPool() {
  std::lock_guard<std::mutex> lock(mutex_);
  ZEROTH_CHECK(open_pool_ == nullptr);
  auto pool = std::make_unique<Pool>();
  open_pool_ = pool.get();
  pools_[++last_pool_] = std::move(pool);
  MoveSegments(nullptr, open_pool_, [](const Block&) { return true; });
  return last_pool_;
}

void CachingAllocator::ClosePool(PoolId id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = pools_.find(id);
  ZEROTH_CHECK(found != pools_.end() && found->second.get() == open_pool_);
  open_pool_->open = false;
  open_pool_->last_born = last_born_;
  MoveSegments(open_pool_, nullptr, [](const Block& block) { return !block.touched; });
  Charge(*std::exchange(open_pool_, nullptr));
}

void CachingAllocator::ReleasePool(PoolId id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = pools_.find(id);
  ZEROTH_CHECK(found != pools_.end() && !found->second->open);
  const std::unique_ptr<Pool> pool = std::move(found->second);
  pools_.erase(found);
  for (size_t i = 0; i < pool->charged.size(); ++i) {
    account_.Charge(-pool->charged[i], static_cast<MemoryCategory>(i));
  }
  // All blocks of a segment leave the pool before any of them joins a neighbour.
  std::vector<Block*> unused = std::exchange(held_, {});
  for (const auto& [data, block] : blocks_) {
    if (block->pool != pool.get()) continue;
    block->pool = nullptr;
    if (std::exchange(block->free, false)) unused.push_back(block.get());
  }
  for (Block* const block : unused) ReturnBlock(block);
}

}  // namespace zeroth::cuda
