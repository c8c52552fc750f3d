// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cpu/pool_allocator.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "absl/status/status.h"

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

// Beyond any address space, and small enough that rounding up cannot overflow.
constexpr size_t kMaxRequestBytes = size_t{1} << 62;
// Below this, size classes are multiples of the alignment; above, an eighth of a power of two
// apart.
constexpr size_t kFineBytes = 1024;

size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Returns a mapping that starts on a huge page, or nullptr.
void* MapLarge(size_t bytes) {
  const size_t mapped = bytes + PoolAllocator::kHugePageBytes;
  void* const map =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(map);
  const size_t misaligned = reinterpret_cast<uintptr_t>(begin) % PoolAllocator::kHugePageBytes;
  const size_t head = misaligned == 0 ? 0 : PoolAllocator::kHugePageBytes - misaligned;
  if (head > 0) munmap(begin, head);
  munmap(begin + head + bytes, mapped - head - bytes);
  // An error is ignored: without transparent huge pages the block works as well.
  madvise(begin + head, bytes, MADV_HUGEPAGE);
  return begin + head;
}

void* TakeFromSystem(size_t block_bytes) {
  if (block_bytes >= PoolAllocator::kLargeBytes) return MapLarge(block_bytes);
  return std::aligned_alloc(PoolAllocator::kAlignment, block_bytes);
}

void FreeToSystem(void* data, size_t block_bytes) {
  ASAN_UNPOISON_MEMORY_REGION(data, block_bytes);
  if (block_bytes >= PoolAllocator::kLargeBytes) {
    munmap(data, block_bytes);
  } else {
    std::free(data);
  }
}

}  // namespace

PoolAllocator::~PoolAllocator() {
  ZEROTH_CHECK(in_use_.empty());
  TrimLocked();
}

size_t PoolAllocator::BlockBytes(size_t bytes) {
  if (bytes <= kFineBytes) return std::max(RoundUp(bytes, kAlignment), kAlignment);
  const size_t block_bytes = RoundUp(bytes, std::bit_floor(bytes) / 8);
  if (block_bytes < kLargeBytes) return block_bytes;
  return std::max(RoundUp(bytes, kHugePageBytes), kLargeBytes);
}

void PoolAllocator::TrimLocked() {
  for (const auto& [block_bytes, blocks] : pool_) {
    for (void* data : blocks) {
      FreeToSystem(data, block_bytes);
      account_.AddReserved(-static_cast<int64_t>(block_bytes));
    }
  }
  pool_.clear();
}

PoolAllocator::Block PoolAllocator::TakePooled(size_t block_bytes) {
  const auto found = pool_.lower_bound(block_bytes);
  if (found == pool_.end() || found->first > block_bytes + block_bytes / 4) return {};
  const Block block{found->second.back(), found->first};
  found->second.pop_back();
  // Empty lists are removed, so that the search finds only sizes with a block.
  if (found->second.empty()) pool_.erase(found);
  return block;
}

absl::StatusOr<void*> PoolAllocator::AllocateRaw(size_t bytes, MemoryCategory category) {
  if (bytes > kMaxRequestBytes) {
    return absl::ResourceExhaustedError("more than the address space of any machine");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const size_t wanted = BlockBytes(bytes);
  Block block = TakePooled(wanted);
  if (block.data == nullptr) {
    block = {TakeFromSystem(wanted), wanted};
    if (block.data == nullptr) {
      TrimLocked();
      block.data = TakeFromSystem(wanted);
    }
    if (block.data == nullptr) {
      return absl::ResourceExhaustedError(
          "the operating system has no more memory for this process; use a smaller batch or model, "
          "or more ranks on "
          "more machines");
    }
    account_.AddReserved(static_cast<int64_t>(wanted));
  }
  in_use_.emplace(block.data, block.bytes);
  account_.Allocated(bytes, category);
  ASAN_POISON_MEMORY_REGION(block.data, block.bytes);
  ASAN_UNPOISON_MEMORY_REGION(block.data, bytes);
  return block.data;
}

void PoolAllocator::FreeRaw(void* data, size_t bytes, MemoryCategory category) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = in_use_.find(data);
  ZEROTH_CHECK(found != in_use_.end() && bytes <= found->second);
  ASAN_POISON_MEMORY_REGION(data, found->second);
  pool_[found->second].push_back(data);
  in_use_.erase(found);
  account_.Freed(bytes, category);
}

}  // namespace zeroth
