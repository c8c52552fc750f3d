// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What memory is for, how much of it is in use, and the allocator that keeps the account.

#ifndef ZEROTH_CORE_DEVICE_MEMORY_H_
#define ZEROTH_CORE_DEVICE_MEMORY_H_

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
  kParameters,          // what a rank keeps of the parameters between steps
  kGatheredParameters,  // full parameters that exist only while a unit is gathered
  kGradients,           // reduced gradients, and the full gradients of units in backward
  kOptimizer,           // moments
  kActivations,         // what forward keeps for backward, and everything that layers compute
  kCommunication,       // staging of collectives
  kWorkspace,           // scratch of kernels
  kOffloadStaging,      // what is being copied to or from an offload store
};
inline constexpr int kMemoryCategoryCount = 8;

// "parameters", "gathered_parameters", …: the spelling of tables and messages.
absl::string_view MemoryCategoryName(MemoryCategory category);

// Bytes as requested by callers; rounding and pooling show only in `reserved_bytes`.
struct MemoryStats {
  struct Usage {
    int64_t current_bytes = 0;
    int64_t peak_bytes = 0;
    int64_t allocations = 0;  // number of calls so far
  };
  std::array<Usage, kMemoryCategoryCount> categories;
  Usage total;                 // its peak is the peak of the sum, not the sum of the peaks
  int64_t reserved_bytes = 0;  // held from the operating system, pooled blocks included

  const Usage& operator[](MemoryCategory category) const {
    return categories[static_cast<size_t>(category)];
  }
};

// Where an allocator's memory comes from. Thread-safe.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // At least 256-byte aligned. ResourceExhausted if there is no more.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  // Waits until the device no longer uses the memory, where the caller has not.
  virtual void Free(void* data, size_t bytes) = 0;
};

class Allocator;

// What is in use of the memory that was allocated at one place of a run, by category.
struct MemoryHolder {
  std::string place;  // "forward h.3"
  std::array<std::atomic<int64_t>, kMemoryCategoryCount> bytes{};
};

// One block of device memory; gives itself back when destroyed. Shared by the tensors that view it.
// Keeps its allocator alive. Immutable apart from the bytes, so sharing across threads is safe.
class Buffer {
 public:
  // `holder` lives as long as the allocator.
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

// Begins what Allocator::Allocate's messages say of an allocation that has failed.
inline constexpr char kCannotAllocate[] = "cannot allocate";

// Hands out 64-byte aligned (or better) blocks of one device and accounts for them. Thread-safe.
class Allocator : public std::enable_shared_from_this<Allocator> {
 public:
  virtual ~Allocator() = default;

  // A block of `bytes` uninitialised bytes; zero bytes give a valid buffer of size 0.
  // ResourceExhausted says how many bytes were asked for, for what and at which place, what was in
  // use by category, and which places hold most of it.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryCategory category);

  // Whether there is memory that the rank's collectives can be told of
  // (DeviceOptions::transport_memory, Communicator::Register).
  virtual bool has_transport_memory() const { return false; }
  // A block of it, which is a piece of its own: nothing else lies in what the source gave for it,
  // and it goes back there as soon as it may. For what lives long, since that is slow.
  // Unimplemented unless has_transport_memory(); otherwise as Allocate.
  absl::StatusOr<std::shared_ptr<Buffer>> AllocateForTransport(size_t bytes,
                                                               MemoryCategory category);

  // From now on no more than this many bytes are handed out at a time, as requested by callers:
  // what would go beyond is ResourceExhausted and says by how much. 0: no limit but the machine's.
  // Set it before the allocator is shared.
  void set_limit(int64_t bytes) { limit_ = bytes; }
  int64_t limit() const { return limit_; }

  // Until it is left, what is allocated is for "`what` `of`", as "forward h.3", wherever it is then
  // used; the innermost place counts. For messages alone. One thread enters and leaves; what others
  // allocate meanwhile is for the same place.
  void EnterPlace(absl::string_view what, absl::string_view of);
  void LeavePlace();
  void LeaveAllPlaces();

  // A consistent snapshot.
  virtual MemoryStats stats() const = 0;
  // Peaks become the current values: the next peak is that of the phase that starts now.
  virtual void ResetPeaks() = 0;
  // Gives pooled blocks that nobody uses back to the operating system.
  virtual void Trim() = 0;

 protected:
  friend class Buffer;
  virtual absl::StatusOr<void*> AllocateRaw(size_t bytes, MemoryCategory category) = 0;
  virtual void FreeRaw(void* data, size_t bytes, MemoryCategory category) = 0;
  // Given back by FreeRaw, too.
  virtual absl::StatusOr<void*> AllocateTransportRaw(size_t bytes, MemoryCategory category);

 private:
  // What a call of either kind returns, whose memory was taken by `take`.
  using Take = absl::StatusOr<void*> (Allocator::*)(size_t bytes, MemoryCategory category);
  absl::StatusOr<std::shared_ptr<Buffer>> AllocateBy(Take take, size_t bytes,
                                                     MemoryCategory category);
  absl::Status CheckLimit(size_t bytes) const;
  // By category, and the largest of `holders_`.
  std::string Ledger() const;

  int64_t limit_ = 0;
  mutable std::mutex holders_mutex_;
  std::map<std::string, MemoryHolder> holders_;  // by place
  MemoryHolder outside_;                         // of all places
  std::vector<MemoryHolder*> entered_;
  std::atomic<MemoryHolder*> holder_ = &outside_;
};

// A place for as long as it lives.
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

#endif  // ZEROTH_CORE_DEVICE_MEMORY_H_
