// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Pooled host memory. A training step allocates the same sizes again and again, and mmap with its
// page faults costs more than the arithmetic of small layers.

#pragma once

#include <cstddef>
#include <map>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/device/memory.h"
#include "zeroth/core/device/memory_account.h"

namespace zeroth {

// Freed blocks are kept for later requests of their size, or of down to a fifth less. So a repeated
// pattern of requests gets nothing from the operating system after its first round. Blocks of
// kLargeBytes or more are separate mappings of whole huge pages. Smaller ones come from the C++
// heap, in size classes at most an eighth apart. Under AddressSanitizer all memory that no caller
// owns is poisoned, pooled blocks included.
class PoolAllocator final : public AccountingAllocator {
 public:
  static constexpr size_t kAlignment = 64;  // a cache line, and the widest vector
  static constexpr size_t kHugePageBytes = size_t{2} << 20;
  // From this size on, rounding to whole huge pages adds less than half of the request.
  static constexpr size_t kLargeBytes = size_t{4} << 20;

  PoolAllocator() = default;
  // No Buffer is left here, because each keeps its allocator alive.
  ~PoolAllocator() override;

  // Returns the size of the block for a request of `bytes`.
  static size_t BlockBytes(size_t bytes);

 protected:
  absl::StatusOr<void*> AllocateRaw(size_t bytes, MemoryCategory category) override;
  void FreeRaw(void* data, size_t bytes, MemoryCategory category) override;

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };

  // Returns a pooled block that fits `block_bytes` well. Without one, `data` is null.
  Block TakePooled(size_t block_bytes);
  void TrimLocked() override;

  std::map<size_t, std::vector<void*>>
      pool_;  // by block size; last in, first out, as its bytes may be in the cache
  std::unordered_map<void*, size_t> in_use_;  // block sizes, which exceed requests
};

}  // namespace zeroth
