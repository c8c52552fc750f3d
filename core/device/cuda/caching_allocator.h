// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Device memory, kept between uses: asking the driver costs a synchronisation of the whole device.
//
// What is freed may be handed out again at once, while the device still has to run what used it.
// That is right in the order of one stream: the compute stream's. Whoever lets another stream use
// memory either holds it until the compute stream has waited for that stream, or hands it to
// CudaStream::Retain; and whoever lets another stream write new memory first makes that stream wait
// for the compute stream. So no host waits, and which block goes where depends on the order of
// calls alone, never on timing.
//
// Work that is recorded, to be run again later, breaks that rule: it uses its memory whenever it is
// played. So a recording has a private pool. What is allocated while the pool is open comes from it
// and, freed, goes back into it, in the order of the recorded compute stream; once closed it hands
// out nothing more. And what was in use before, which recorded work may refer to, is held when it
// is freed, until the pool is released.

#ifndef ZEROTH_CORE_DEVICE_CUDA_CACHING_ALLOCATOR_H_
#define ZEROTH_CORE_DEVICE_CUDA_CACHING_ALLOCATOR_H_

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

// Takes segments from a source and cuts them into blocks: best fit, neighbours that are free are
// joined. Requests of 1 MiB or more are not mixed with smaller ones. Thread-safe.
class CachingAllocator final : public AccountingAllocator {
 public:
  static constexpr size_t kAlignment = 512;  // coalesced access starts on it
  static constexpr size_t kSmallBytes = size_t{1} << 20;
  static constexpr size_t kSmallSegmentBytes = size_t{2} << 20;
  static constexpr size_t kLargeSegmentBytes = size_t{32} << 20;  // for requests below half of it
  static constexpr size_t kLargeRounding = size_t{2} << 20;

  // `exact`: every block is a segment of just its size, so that tools which watch the source's
  // allocations see each access outside of a block. `transport`: see has_transport_memory().
  explicit CachingAllocator(std::unique_ptr<MemorySource> source, bool exact = false,
                            std::shared_ptr<MemorySource> transport = nullptr);
  // Every Buffer keeps its allocator alive, so none is left here.
  ~CachingAllocator() override;

  bool has_transport_memory() const override { return transport_ != nullptr; }

  using PoolId = uint64_t;
  // Opens a private pool for a recording; no other may be open, on any thread. Segments that nobody
  // uses go into it, so that a recording of what has run before takes nothing from the source. The
  // device must be idle: the pool's memory has no order with what used it earlier.
  PoolId OpenPool();
  // Closes it. Segments that it did not need are everybody's again. From here to the release its
  // peak stays charged, to the categories that made it up, since it is in use at every play.
  void ClosePool(PoolId pool);
  // What the pool had, and what it held, may be handed out again, in the order of the compute
  // stream. Blocks of the pool that still have an owner are ordinary from now on.
  void ReleasePool(PoolId pool);

 protected:
  absl::StatusOr<void*> AllocateRaw(size_t bytes, MemoryCategory category) override;
  void FreeRaw(void* data, size_t bytes, MemoryCategory category) override;
  // Belongs to no pool, and is never kept for others; recordings hold it as they hold the rest.
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
    bool transport = false;  // a segment of the other source
    bool touched = false;  // of a pool's blocks: some of it was handed out while the pool was open
    uint64_t born = 0;  // number of the allocation that it serves or, joined, of the first of them
    Pool* pool = nullptr;  // all blocks of a segment have the same; nullptr: everybody's
    Block* previous = nullptr;
    Block* next = nullptr;
  };
  struct BySizeThenAddress {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
  };
  using FreeBlocks = std::set<Block*, BySizeThenAddress>;
  using Bytes = std::array<int64_t, kMemoryCategoryCount>;

  struct Pool {
    void Allocated(size_t bytes, MemoryCategory category);
    void Freed(size_t bytes, MemoryCategory category);

    bool open = true;
    uint64_t last_born = 0;  // recorded work refers to no younger allocation
    FreeBlocks free[2];      // large, small
    Bytes live = {};         // of its blocks' owners
    int64_t live_total = 0;
    int64_t peak_total = 0;
    Bytes at_peak = {};  // what was live when the total was highest
    Bytes charged = {};  // beyond what is live
  };

  static size_t BlockBytes(size_t bytes, bool exact);
  static size_t SegmentBytes(size_t block_bytes, bool exact);

  FreeBlocks& FreeIn(Pool* pool, bool small) {
    return (pool == nullptr ? free_ : pool->free)[small ? 1 : 0];
  }
  FreeBlocks& FreeOf(const Block& block) { return FreeIn(block.pool, block.small); }
  // Moves the free blocks that are whole segments and match `wanted` from one pool to another.
  template <typename Wanted>
  void MoveSegments(Pool* from, Pool* to, const Wanted& wanted);
  // True while some pool's recording may refer to the block.
  bool MayBeRecorded(const Block& block) const;
  // Nobody uses the block: joins it with its neighbours and offers it, or holds it.
  void GiveBack(Block* block);
  // A closed pool's peak, less what its blocks' owners are charged for.
  void Charge(Pool& pool);
  Block* TakeFree(size_t block_bytes, bool small);
  absl::StatusOr<Block*> NewSegment(size_t block_bytes, bool small);
  // Cuts what `block` has beyond `bytes` off, if that is worth having.
  void Split(Block* block, size_t bytes);
  // Joins `block` with its free neighbour behind it.
  void JoinNext(Block* block);
  // A whole segment goes back to its source.
  void ReturnSegment(Block* block);
  // Not what pools have, nor what they hold.
  void TrimLocked() override;

  const std::unique_ptr<MemorySource> source_;
  const bool exact_;
  const std::shared_ptr<MemorySource> transport_;
  std::map<void*, std::unique_ptr<Block>> blocks_;  // all of them, by address
  FreeBlocks free_[2];                              // large, small; of no pool
  uint64_t last_born_ = 0;
  PoolId last_pool_ = 0;
  std::map<PoolId, std::unique_ptr<Pool>> pools_;
  Pool* open_pool_ = nullptr;
  std::vector<Block*> held_;
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_CACHING_ALLOCATOR_H_
