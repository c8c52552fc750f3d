// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Memory for units' gathered parameters, and for their full gradients.

#ifndef ZEROTH_STRATEGIES_FULL_BUFFERS_H_
#define ZEROTH_STRATEGIES_FULL_BUFFERS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Of a segment in a full buffer: whole multiples of ShardLayout::kAlignmentBytes.
int64_t SegmentBytes(int64_t numel, DType dtype);

// Bytes of one buffer that holds a unit's full parameters, or full gradients, as far as these are
// not the memory of its shards.
int64_t FullParameterBytes(const Unit& unit);
int64_t FullGradientBytes(const Unit& unit, MicroBatches how);

// One full buffer for each unit that asks: units other than the root share buffers of the
// largest such unit's size, one after the other, and units of an eighth of that and less in as many
// buffers of the largest small unit's size. The root, and every unit of a set that shares nothing,
// has a buffer of its own. Used by one rank's thread only.
class FullBuffers {
 public:
  // What a unit needs. Gradients of a step's only micro-batch and sums of several may differ in
  // size: each MicroBatches has its own buffers, unless all sizes are the same.
  using BytesOf = std::function<int64_t(const Unit& unit, MicroBatches how)>;

  // At most `limit` shared buffers of each size are kept, see BufferSet; 0: nothing is shared.
  FullBuffers(Device& device, MemoryCategory category, const std::vector<Unit*>& units, int limit,
              const BytesOf& bytes_of);
  // As BufferSet::RegisterWith, of all buffers; the root then keeps its own. Before the first
  // Acquire.
  void RegisterWith(const std::vector<Communicator*>& groups);

  // True if Acquire would stay within the limit.
  bool HasRoom(const Unit& unit, int64_t bytes);
  // A buffer of `bytes` that `writer` may write, until Release. FailedPrecondition if the unit has
  // one.
  absl::StatusOr<Tensor> Acquire(const Unit& unit, int64_t bytes, Stream& writer);
  // Gives back the buffer that the unit acquired, if it did; `last_use` (nullptr: done) ends its
  // use. The compute stream waits for that before memory returns to the allocator.
  void Release(const Unit& unit, std::shared_ptr<Event> last_use);
  // As BufferSet::Trim.
  absl::Status Trim();

 private:
  struct Holding {
    Tensor buffer;
    BufferSet* from = nullptr;  // nullptr: the allocator
  };

  // Where the unit's buffer comes from; nullptr: the allocator.
  BufferSet* SetOf(const Unit& unit, int64_t bytes);

  Device& device_;
  MemoryCategory category_;
  std::vector<std::unique_ptr<BufferSet>> turns_;
  std::array<BufferSet*, kMicroBatchesCount> turns_of_{};  // by MicroBatches; nullptr: no turns
  std::vector<Communicator*> groups_;                      // that buffers are registered with
  std::vector<Holding> held_;                              // by unit index
  std::vector<std::unique_ptr<BufferSet>> own_;  // of units that take no turns, by unit index
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_FULL_BUFFERS_H_
