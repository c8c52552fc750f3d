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

#ifndef ZEROTH_CORE_DEVICE_CUDA_CACHING_ALLOCATOR_H_
#define ZEROTH_CORE_DEVICE_CUDA_CACHING_ALLOCATOR_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/device/memory.h"
#include "zeroth/core/device/memory_account.h"

namespace zeroth::cuda {

// Where an allocator's memory comes from.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // At least 256-byte aligned. ResourceExhausted if there is no more.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // Waits until the device no longer uses the memory.
  virtual void Free(void* data, size_t bytes) = 0;
};

// Takes segments from a source and cuts them into blocks: best fit, neighbours that are free are
// joined. Requests of 1 MiB or more are not mixed with smaller ones. Thread-safe.
class CachingAllocator final : public Allocator {
 public:
  static constexpr size_t kAlignment = 512;  // coalesced access starts on it
  static constexpr size_t kSmallBytes = size_t{1} << 20;
  static constexpr size_t kSmallSegmentBytes = size_t{2} << 20;
  static constexpr size_t kLargeSegmentBytes = size_t{32} << 20;  // for requests below half of it
  static constexpr size_t kLargeRounding = size_t{2} << 20;

  // `exact`: every block is a segment of just its size, so that tools which watch the source's
  // allocations see each access outside of a block.
  explicit CachingAllocator(std::unique_ptr<MemorySource> source, bool exact = false);
  // Every Buffer keeps its allocator alive, so none is left here.
  ~CachingAllocator() override;

  MemoryStats stats() const override;
  void ResetPeaks() override;
  void Trim() override;

 protected:
  absl::StatusOr<void*> AllocateRaw(size_t bytes, MemoryCategory category) override;
  void FreeRaw(void* data, size_t bytes, MemoryCategory category) override;

 private:
  // A part of a segment. Blocks of a segment form a list in the order of their addresses.
  struct Block {
    char* data = nullptr;
    size_t bytes = 0;
    bool small = false;
    bool free = false;
    Block* previous = nullptr;
    Block* next = nullptr;
  };
  struct BySizeThenAddress {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
  };
  using FreeBlocks = std::set<Block*, BySizeThenAddress>;

  static size_t BlockBytes(size_t bytes, bool exact);
  static size_t SegmentBytes(size_t block_bytes, bool exact);

  FreeBlocks& FreeOf(bool small) { return free_[small ? 1 : 0]; }
  Block* TakeFree(size_t block_bytes, bool small);
  absl::StatusOr<Block*> NewSegment(size_t block_bytes, bool small);
  // Cuts what `block` has beyond `bytes` off, if that is worth having.
  void Split(Block* block, size_t bytes);
  // Joins `block` with its free neighbour behind it.
  void JoinNext(Block* block);
  void Erase(Block* block);
  void TrimLocked();

  mutable std::mutex mutex_;
  const std::unique_ptr<MemorySource> source_;
  const bool exact_;
  MemoryAccount account_;
  std::map<void*, std::unique_ptr<Block>> blocks_;  // all of them, by address
  FreeBlocks free_[2];                              // large, small
};

}  // namespace zeroth::cuda

#endif  // ZEROTH_CORE_DEVICE_CUDA_CACHING_ALLOCATOR_H_
