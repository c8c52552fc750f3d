// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Buffers for units' gathered parameters, and for their full gradients.

#pragma once

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
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Returns the bytes of the buffer for a unit's full parameters, or full gradients. Segments whose
// shard is the full buffer need none.
int64_t FullParameterBytes(const Unit& unit);
int64_t FullGradientBytes(const Unit& unit, Accumulation how);

// Full buffers of units. Units other than the root take turns with shared buffers of the size of
// the largest of them; units of at most an eighth of that size share as many smaller ones. The root
// has its own buffer, as does every unit if nothing is shared. Used by one rank's thread only.
class FullBuffers {
 public:
  // The bytes that a unit needs. Gradients of one micro-batch and sums of several may differ in
  // size, so each Accumulation has separate buffers, unless all sizes are the same.
  using BytesOf = std::function<int64_t(const Unit& unit, Accumulation how)>;

  // `limit` is the number of shared buffers of each size, see BufferSet; 0: nothing is shared.
  FullBuffers(Device& device, MemoryCategory category, const std::vector<Unit*>& units, int limit,
              const BytesOf& bytes_of);
  // BufferSet::RegisterWith for all buffers; the root then keeps its buffer. Call it before the
  // first Acquire.
  void RegisterWith(const std::vector<Communicator*>& groups);

  // True if Acquire would stay within the limit.
  bool HasRoom(const Unit& unit, int64_t bytes);
  // True if `unit` has a shared buffer of the size that Acquire would choose for `bytes`.
  bool HasSizeFor(const Unit& unit, int64_t bytes);
  // Returns a buffer of `bytes` that `writer` may write, until Release. FailedPrecondition if the
  // unit still has one.
  absl::StatusOr<Tensor> Acquire(const Unit& unit, int64_t bytes, Stream& writer);
  // Gives back the unit's buffer, if it has one. `last_use` is the event of its last use; nullptr
  // if that is done. The compute stream waits for it before memory returns to the allocator.
  void Release(const Unit& unit, std::shared_ptr<Event> last_use);
  // Calls BufferSet::Trim of every set.
  absl::Status Trim();

 private:
  struct HeldBuffer {
    Tensor buffer;
    BufferSet* from = nullptr;
  };

  // Returns the set that the unit's buffer comes from.
  BufferSet& SetOf(const Unit& unit, int64_t bytes);

  Device& device_;
  MemoryCategory category_;
  std::vector<std::unique_ptr<BufferSet>> shared_;
  // The set for each Accumulation; nullptr if nothing is shared.
  std::array<BufferSet*, kAccumulationCount> shared_of_{};
  std::vector<Communicator*> groups_;  // whose transport registers buffers
  std::vector<HeldBuffer> held_;       // by unit index
  // The registered buffers of units that share none, by unit index.
  std::vector<std::unique_ptr<BufferSet>> own_;
  BufferSet unshared_;  // for all other buffers; keeps none
};

// Gives every segment memory for its full parameters: a place in a buffer that `comm` may write, or
// its shard if that is the same memory.
absl::Status AcquireFullParameters(Unit& unit, FullBuffers& buffers, Stream& comm);
// Frees the full parameters: kGathered → kSharded.
absl::Status FreeGathered(Unit& unit, FullBuffers& buffers);

// Gives every trainable segment memory for full gradients of Unit::full_gradient_dtype: from
// `buffers`, or the memory that the optimizer will read if every rank holds all of the segment.
// kNone → kFull.
absl::Status PrepareFullGradients(Unit& unit, FullBuffers& buffers);
// Zeroes gaps and padding, which are reduced with the gradients, so that they are zeros in every
// sum.
absl::Status ZeroGaps(const Unit& unit, int segment, const Tensor& full, Stream& stream);

}  // namespace zeroth
