// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the strategies have in common: the collectives of one unit's flat buffers. A strategy is a
// choice among these.

#ifndef ZEROTH_STRATEGIES_FLAT_COLLECTIVES_H_
#define ZEROTH_STRATEGIES_FLAT_COLLECTIVES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/stream_scratch.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// The size that strategies without groups take: `natural`. InvalidArgument if another one was asked
// for, since leaving the request aside would be a silent downgrade.
absl::StatusOr<int> FixedShardSize(absl::string_view strategy, const StrategyOptions& options,
                                   int natural);

// Bytes of one buffer that holds a unit's full parameters, or full gradients, as far as these are
// not the memory of its shards; segments are 64-byte aligned.
int64_t FullParameterBytes(const Unit& unit);
int64_t FullGradientBytes(const Unit& unit, MicroBatches how);

// The full buffers of a unit's cut segments in turn from a BufferSet, or, for the root and for
// strategies that keep units gathered, each from the allocator. Used by one rank's thread only.
class FullBuffers {
 public:
  // `set` may be nullptr: every buffer comes from the allocator.
  FullBuffers(Device& device, MemoryCategory category, BufferSet* set);
  // As BufferSet::RegisterWith, of all buffers; a unit that takes no turns then keeps its own. The
  // set is told, too. Before the first Acquire.
  void RegisterWith(const std::vector<Communicator*>& groups);

  // A buffer of `bytes` that `writer` may write.
  absl::StatusOr<Tensor> Acquire(const Unit& unit, int64_t bytes, Stream& writer);
  // Gives back the buffer that the unit acquired; `last_use` (nullptr: done) ends its use. The
  // compute stream waits for that before memory returns to the allocator.
  void Release(const Unit& unit, std::shared_ptr<Event> last_use);
  // As BufferSet::Trim, of buffers of units that take no turns.
  absl::Status Trim();

 private:
  // Where the unit's buffer comes from; nullptr: from the allocator.
  BufferSet* SetOf(const Unit& unit, int64_t bytes);

  Device& device_;
  MemoryCategory category_;
  BufferSet* set_;
  std::vector<Communicator*> groups_;  // that buffers are registered with
  struct Holding {
    Tensor buffer;
    BufferSet* from = nullptr;
  };
  std::vector<Holding> held_;                    // by unit index
  std::vector<std::unique_ptr<BufferSet>> own_;  // of units that take no turns, by unit index
};

// Gives every segment of a sharded unit its place for full parameters, in a buffer from `buffers`
// that `comm` may write, or its shard where that is the same memory.
absl::Status AcquireFullParameters(Unit& unit, FullBuffers& buffers, Stream& comm);

// What travels of this rank's shard of a segment: the shard itself, or `slice` ([shard_numel] of
// param_dtype), into which `kernels` round it, or from where it is offloaded to by way of
// `staging`.
absl::StatusOr<Tensor> OwnPart(const Unit& unit, int segment, const Tensor& slice, Stream& comm,
                               Kernels* kernels, StreamScratch* staging);

// full[r * mine.numel(), …) = `mine` of rank r of the group, by the unit's own collectives where it
// has some, with memory from `travel`.
absl::Status AllGatherSegment(const Unit& unit, const Tensor& mine, const Tensor& full,
                              Communicator& group, Stream& comm, StreamScratch* travel);

// Makes every segment full, in a buffer from `buffers`, and moves the unit to kGathering: a shard
// is rounded into its slice (by `kernels`, on `comm`, as in StrategyContext), then all-gathered in
// place where it is cut. Segments that are full already are used as they are; those that are whole
// cause no traffic. A shard that is offloaded is read into its slice, by way of `staging` (of
// Offload's chunk_numel elements at most) if it is rounded on the way. Gathers by the unit's own
// collectives where it has some, with memory from `travel`.
absl::Status GatherSegments(Unit& unit, Communicator& group, FullBuffers& buffers, Stream& comm,
                            Kernels* kernels, StreamScratch* staging = nullptr,
                            StreamScratch* travel = nullptr);
// Frees the full parameters: kGathered → kSharded.
absl::Status FreeGathered(Unit& unit, FullBuffers& buffers);

// Gives every trainable segment a place for full gradients of Unit::full_gradient_dtype: from
// `buffers` where it is cut, otherwise the memory that the optimizer will read. kNone → kFull.
absl::Status PrepareFullGradients(Unit& unit, FullBuffers& buffers);

// Uninitialised memory of a unit's gradients that `writer` may write.
absl::StatusOr<Tensor> AllocateFp32Gradients(const Unit& unit, const Shape& shape, Stream& writer);

// Gaps and padding travel with the gradients; zeros there keep them zeros in every sum.
absl::Status ZeroGaps(Unit& unit, int segment, const Tensor& full, Stream& stream);

struct GradientGroups {
  Communicator* shard = nullptr;  // reduce-scatter of cut segments
  Communicator* replicate =
      nullptr;  // then all-reduce of the shards across groups; nullptr or size 1: none
  // Reduce-scatter in place of that all-reduce: owners span groups, see Mesh.
  bool scatters_across = false;
  Communicator* world = nullptr;  // all-reduce of segments that every rank holds whole
  // What the result is multiplied by once it is complete (a gradient divide factor other than the
  // number of ranks). Needs kernels unless it is 1.
  double scale = 1;
  // Memory for a unit's own collectives.
  StreamScratch* travel = nullptr;
};
// Reduces every trainable segment as ShardingStrategy::SyncGradients says; full buffers go back to
// `buffers`. Whatever reduce_dtype is, sums over all groups together are scaled and rounded once,
// and shards are accumulated over micro-batches in fp32; where layers add to full gradients, these
// are fp32 already (Unit::full_gradient_dtype), travel as such, and are not rounded at all. What
// every rank holds whole in 16 bits travels as fp32 too if it is to be scaled, by way of `scratch`.
// Gradients that are offloaded end in the store; where owners span groups, micro-batches add up in
// memory all the same.
absl::Status ReduceGradients(Unit& unit, const GradientGroups& groups, ReduceOp op,
                             GradientSync sync, FullBuffers& buffers, StreamScratch& scratch,
                             Stream& comm);

// Every segment's masters in full, each in memory of its own: for those who export or inspect
// what rounding would spoil. By segment; segments that are whole are the shards themselves, unless
// these are offloaded. Leaves the unit's state alone.
absl::StatusOr<std::vector<Tensor>> GatherMasters(const Unit& unit, Communicator& group,
                                                  Stream& comm);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_FLAT_COLLECTIVES_H_
