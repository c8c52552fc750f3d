// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Device memory that is cached between uses, because asking the driver synchronises the whole
// device.
//
// Freed memory may be handed out again at once, before the device has run the work that used it.
// That is safe because both uses follow the order of one stream, the compute stream. Code that lets
// another stream use memory must hold the memory until the compute stream has waited for that
// stream, or hand it to CudaStream::Retain. Code that lets another stream write new memory must
// first make that stream wait for the compute stream. So no host waits, and which block is handed
// out depends on the order of calls alone, never on timing.
//
// Recorded work breaks that rule, because it uses its memory whenever it is played. So a recording
// has a private pool. While the pool is open, allocations come from it, and freed memory goes back
// into it, in the order of the recorded compute stream. A closed pool hands out nothing more.
// Recorded work may also refer to memory that was in use before. If that is freed, it is held until
// the pool is released.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/memory.h"
#include "zeroth/core/device/memory_account.h"

namespace zeroth::cuda {

// Gets segments from a source and divides them into blocks: best fit, and free neighbours are
// joined. Requests of 1 MiB or more never share a segment with smaller ones. Thread-safe.
class CachingAllocator final : public AccountingAllocator {
 public:
  static constexpr size_t kAlignment = 512;  // for coalesced access
  static constexpr size_t kSmallBytes = size_t{1} << 20;
  static constexpr size_t kSmallSegmentBytes = size_t{2} << 20;
  static constexpr size_t kLargeSegmentBytes = size_t{32} << 20;  // for requests below half of it
  static constexpr size_t kLargeRounding = size_t{2} << 20;

  // `exact`: every block is a segment of exactly its size, so that tools that watch the source's
  // allocations see each access outside of a block. `transport`: see has_transport_memory().
  explicit CachingAllocator(std::unique_ptr<MemorySource> source, bool exact = false,
                            std::shared_ptr<MemorySource> transport = nullptr);
  // No Buffer is left here, because each keeps its allocator alive.
  ~CachingAllocator() override;

  bool has_transport_memory() const override { return transport_ != nullptr; }

  using PoolId = uint64_t;
  // Opens a private pool for a recording. No other pool may be open, on any thread. Unused segments
  // move into it, so that recording work that has run before gets no memory from the source. The
  // device must be idle, because nothing orders the pool's memory after its earlier use.
  PoolId OpenPool();
  // Closes the pool. Segments that it did not need move back. Until the release, the account is
  // charged with the pool's peak, by category, because every play uses that much.
  void ClosePool(PoolId pool);
  // The pool's memory, and the memory that it held, may be handed out again, in the order of the
  // compute stream. Blocks of the pool that still have an owner become ordinary blocks.
  void ReleasePool(PoolId pool);

 protected:
  absl::StatusOr<void*> AllocateRaw(size_t bytes, MemoryCategory category) override;
  void FreeRaw(void* data, size_t bytes, MemoryCategory category) override;
  // This memory belongs to no pool and is never cached. Recordings hold it like other memory.
  absl::StatusOr<void*> AllocateTransportRaw(size_t bytes, MemoryCategory category) override;

 private:
  struct Pool;
  // A part of a segment. Blocks of a segment form a list in the order of their addresses.
  struct Block {
    char* data = nullptr;
    size_t bytes = 0;
    bool small = false;
    bool free = false;
    bool held = false;       // freed by its owner, but a recording may still use it
    bool transport = false;  // a segment of the transport's source
    bool touched = false;    // in a pool: some of it was handed out while the pool was open
    uint64_t born = 0;       // the number of its allocation; of the first one after joining
    Pool* pool = nullptr;    // the same for all blocks of a segment; nullptr: no pool
    Block* previous = nullptr;
    Block* next = nullptr;

    bool IsSegment() const { return previous == nullptr && next == nullptr; }
  };
  struct BySizeThenAddress {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
  };
  using FreeBlocks = std::set<Block*, BySizeThenAddress>;
  using Bytes = std::array<int64_t, kMemoryCategoryCount>;

  struct Pool {
    // Adds `bytes` (may be negative) to what its blocks' owners have in use.
    void Use(int64_t bytes, MemoryCategory category);

    bool open = true;
    uint64_t last_born = 0;  // recorded work refers to no later allocation
    FreeBlocks free[2];      // large, small
    Bytes live = {};         // bytes that its blocks' owners have in use
    int64_t live_total = 0;
    int64_t peak_total = 0;
    Bytes at_peak = {};  // `live` when the total was highest
    Bytes charged = {};  // bytes charged beyond `live`
  };

  static size_t BlockBytes(size_t bytes, bool exact);
  static size_t SegmentBytes(size_t block_bytes, bool exact);

  FreeBlocks& FreeIn(Pool* pool, bool small) {
    return (pool == nullptr ? free_ : pool->free)[small ? 1 : 0];
  }
  FreeBlocks& FreeOf(const Block& block) { return FreeIn(block.pool, block.small); }
  // Moves free blocks that are whole segments and satisfy `wanted` from one pool to another.
  template <typename Wanted>
  void MoveSegments(Pool* from, Pool* to, const Wanted& wanted);
  // True if the recording of some pool may refer to the block.
  bool MayBeRecorded(const Block& block) const;
  // Makes a block that its owner has freed available, joined with its neighbours, or holds it.
  void ReturnBlock(Block* block);
  // Charges a closed pool's peak, less the bytes that its blocks' owners are charged for.
  void Charge(Pool& pool);
  Block* TakeFreeBlock(size_t block_bytes, bool small);
  // Allocates from `source`. If that fails and no pool is open, returns cached segments to their
  // sources and tries again.
  absl::StatusOr<void*> AllocateFrom(MemorySource& source, size_t bytes);
  // Adds the block of a new segment.
  Block* AddSegment(void* data, size_t bytes);
  absl::StatusOr<Block*> NewSegment(size_t block_bytes, bool small);
  // Splits the part of `block` beyond `bytes` off, if it is large enough to be useful.
  void Split(Block* block, size_t bytes);
  // Joins `block` with its next neighbour, which is free.
  void MergeWithNext(Block* block);
  // Returns a whole segment to its source.
  void ReturnSegment(Block* block);
  // Returns free segments to the source, except those that pools have or hold.
  void TrimLocked() override;

  const std::unique_ptr<MemorySource> source_;
  const bool exact_;
  const std::shared_ptr<MemorySource> transport_;
  std::map<void*, std::unique_ptr<Block>> blocks_;  // all blocks, by address
  FreeBlocks free_[2];                              // large, small; outside of pools
  uint64_t last_born_ = 0;
  PoolId last_pool_ = 0;
  std::map<PoolId, std::unique_ptr<Pool>> pools_;
  Pool* open_pool_ = nullptr;
  std::vector<Block*> held_;
};

}  // namespace zeroth::cuda
