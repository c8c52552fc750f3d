// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Device memory: its categories, statistics of its use, and the interface of allocators.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// Every allocation says what it is for.
enum class MemoryCategory : uint8_t {
  kParameters,          // the parameters or shards that a rank keeps between steps
  kGatheredParameters,  // full parameters that exist only while a unit is gathered
  kGradients,           // reduced gradients, and the full gradients of units in backward
  kOptimizer,           // moments
  kActivations,         // tensors that layers compute, and that forward keeps for backward
  kCommunication,       // staging of collectives
  kWorkspace,           // scratch of kernels
  kOffloadStaging,      // state that is being copied to or from an offload store
};
inline constexpr int kMemoryCategoryCount = 8;

// "parameters", "gathered_parameters", …, as in tables and messages.
absl::string_view MemoryCategoryName(MemoryCategory category);

// Bytes as requested by callers. Rounding and pooling count only in `reserved_bytes`.
struct MemoryStats {
  struct Usage {
    int64_t current_bytes = 0;
    int64_t peak_bytes = 0;
    int64_t allocations = 0;  // the number of allocations so far
  };
  std::array<Usage, kMemoryCategoryCount> categories;
  Usage total;                 // its peak is the peak of the sum, not the sum of the peaks
  int64_t reserved_bytes = 0;  // obtained from the operating system, pooled blocks included

  const Usage& operator[](MemoryCategory category) const {
    return categories[static_cast<size_t>(category)];
  }
};

// The source of an allocator's memory. Thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // At least 256-byte aligned. ResourceExhausted if none is left.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // Waits until the device no longer uses the memory, unless the caller has.
  virtual void Free(void* data, size_t bytes) = 0;
};

class Allocator;

// The bytes in use that were allocated at one place of a run, by category.
struct MemoryHolder {
  std::string place;  // "forward h.3"
  std::array<std::atomic<int64_t>, kMemoryCategoryCount> bytes{};
};

// One block of device memory, which its destructor returns to the allocator. The tensors that view
// it share it. It keeps its allocator alive. Immutable apart from the bytes, so threads may share
// it.
class Buffer {
 public:
  // `holder` must live as long as the allocator.
  Buffer(std::shared_ptr<Allocator> allocator, void* data, size_t bytes, MemoryCategory category,
         MemoryHolder& holder);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  MemoryCategory category() const { return category_; }

 private:
  std::shared_ptr<Allocator> allocator_;
  void* data_;
  size_t bytes_;
  MemoryCategory category_;
  MemoryHolder& holder_;
};

// The beginning of Allocator::Allocate's error messages.
inline constexpr char kCannotAllocate[] = "cannot allocate";

// Hands out 64-byte aligned (or better) blocks of one device and accounts for them. Thread-safe.
class Allocator : public std::enable_shared_from_this<Allocator> {
 public:
  virtual ~Allocator() = default;

  // Allocates `bytes` uninitialised bytes. Zero bytes give a valid buffer of size 0.
  // ResourceExhausted says how many bytes were requested, for which category and at which place,
  // what is in use by category, and which places hold most of it.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryCategory category);

  // True if there is memory that the rank's transport can register
  // (DeviceOptions::transport_memory, Communicator::Register).
  virtual bool has_transport_memory() const { return false; }
  // Allocates such memory. The block shares its memory with no other block, and is returned to the
  // source as soon as possible. That is slow, so use it for long-lived buffers. Unimplemented
  // unless has_transport_memory(); otherwise as Allocate.
  absl::StatusOr<std::shared_ptr<Buffer>> AllocateForTransport(size_t bytes,
                                                               MemoryCategory category);

  // Limits the bytes in use, as requested by callers. An allocation beyond the limit is
  // ResourceExhausted and says by how much. 0: no limit but the machine's. Set it before the
  // allocator is shared.
  void set_limit(int64_t bytes) { limit_ = bytes; }
  int64_t limit() const { return limit_; }

  // Until the place is left, allocations count as made at "`what` `of`", such as "forward h.3". The
  // innermost place counts. Used for messages only. One thread enters and leaves places;
  // allocations of other threads count as made at the same place.
  void EnterPlace(absl::string_view what, absl::string_view of);
  void LeavePlace();
  void LeaveAllPlaces();

  // A consistent snapshot.
  virtual MemoryStats stats() const = 0;
  // Sets the peaks to the current values, so that the next peaks are those of a new phase.
  virtual void ResetPeaks() = 0;
  // Returns unused pooled blocks to the operating system.
  virtual void Trim() = 0;

 protected:
  friend class Buffer;
  virtual absl::StatusOr<void*> AllocateRaw(size_t bytes, MemoryCategory category) = 0;
  virtual void FreeRaw(void* data, size_t bytes, MemoryCategory category) = 0;
  // Allocates for AllocateForTransport. FreeRaw frees this memory, too.
  virtual absl::StatusOr<void*> AllocateTransportRaw(size_t bytes, MemoryCategory category);

 private:
  // Implements both kinds of allocation. `take` allocates the memory.
  using Take = absl::StatusOr<void*> (Allocator::*)(size_t bytes, MemoryCategory category);
  absl::StatusOr<std::shared_ptr<Buffer>> AllocateBy(Take take, size_t bytes,
                                                     MemoryCategory category);
  absl::Status CheckLimit(size_t bytes) const;
  // Returns the text about the memory in use: by category, and the largest of `holders_`.
  std::string Ledger() const;

  int64_t limit_ = 0;
  mutable std::mutex holders_mutex_;
  std::map<std::string, MemoryHolder> holders_;  // by place
  MemoryHolder outside_;                         // for allocations outside of all places
  std::vector<MemoryHolder*> entered_;
  std::atomic<MemoryHolder*> holder_ = &outside_;
};

// Enters a place (Allocator::EnterPlace), and leaves it when destroyed.
class AllocationPlace {
 public:
  AllocationPlace(Allocator& allocator, absl::string_view what, absl::string_view of)
      : allocator_(allocator) {
    allocator_.EnterPlace(what, of);
  }
  ~AllocationPlace() { allocator_.LeavePlace(); }
  AllocationPlace(const AllocationPlace&) = delete;
  AllocationPlace& operator=(const AllocationPlace&) = delete;

 private:
  Allocator& allocator_;
};

}  // namespace zeroth
