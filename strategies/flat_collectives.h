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
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// The size that strategies without groups take: `natural`. InvalidArgument if another one was asked
// for, since leaving the request aside would be a silent downgrade.
absl::StatusOr<int> FixedShardSize(absl::string_view strategy, const StrategyOptions& options,
                                   int natural);

// Bytes of one buffer that holds all cut segments of a unit (only trainable ones if so asked),
// 64-byte aligned each.
int64_t FullParameterBytes(const Unit& unit);
int64_t FullGradientBytes(const Unit& unit);

// The full buffers of a unit's cut segments in turn from a BufferSet, or, for the root and for
// strategies that keep units gathered, each from the allocator. Used by one rank's thread only.
class FullBuffers {
 public:
  // `set` may be nullptr: every buffer comes from the allocator.
  FullBuffers(Device& device, MemoryCategory category, BufferSet* set);

  // A buffer of `bytes` that `writer` may write.
  absl::StatusOr<Tensor> Acquire(const Unit& unit, int64_t bytes, Stream& writer);
  // Gives back the buffer that the unit acquired; `last_use` (nullptr: done) ends its use.
  void Release(const Unit& unit, std::shared_ptr<Event> last_use);
  // Gives what is released but was kept for its event to the allocator (the host waits), also if a
  // last use failed; then its error.
  absl::Status Trim();

 private:
  struct Place {
    Tensor held;  // acquired and not released
    Tensor idle;  // released, its last use perhaps not over: reused by the same unit only
    std::shared_ptr<Event> last_use;  // of idle
  };
  bool FromSet(const Unit& unit) const { return set_ != nullptr && !unit.is_root(); }

  Device& device_;
  MemoryCategory category_;
  BufferSet* set_;
  std::vector<Place> places_;  // by unit index
};

// All-gathers every cut segment into a full buffer from `buffers` and moves the unit to kGathering.
// Segments that are whole already are used as they are; a unit of only such segments causes no
// traffic.
absl::Status GatherSegments(Unit& unit, Communicator& group, FullBuffers& buffers, Stream& comm);
// Frees the full parameters: kGathered → kSharded.
absl::Status FreeGathered(Unit& unit, FullBuffers& buffers);

// Gives every trainable segment a place for full gradients: from `buffers` where it is cut,
// otherwise the memory that the optimizer will read. kNone → kFull.
absl::Status PrepareFullGradients(Unit& unit, FullBuffers& buffers);

struct GradientGroups {
  Communicator* shard = nullptr;  // reduce-scatter of cut segments
  Communicator* replicate =
      nullptr;  // then all-reduce of the shards across groups; nullptr or size 1: none
  Communicator* world = nullptr;  // all-reduce of segments that every rank holds whole
};
// Reduces every trainable segment and moves kFull to kReduced; full buffers go back to `buffers`.
absl::Status ReduceGradients(Unit& unit, const GradientGroups& groups, ReduceOp op,
                             FullBuffers& buffers, Stream& comm);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_FLAT_COLLECTIVES_H_
