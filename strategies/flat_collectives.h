// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What strategies on flat units have in common: a unit's full parameters and gradients, and the
// gathers between them and the shards. Reductions are in gradient_reduction.h.

#ifndef ZEROTH_STRATEGIES_FLAT_COLLECTIVES_H_
#define ZEROTH_STRATEGIES_FLAT_COLLECTIVES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/full_buffers.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/stream_scratch.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// What a unit's own collectives are called with. `scratch` may be nullptr for a unit that has none
// of its own; FailedPrecondition if another unit is given no scratch, or no kernels.
absl::StatusOr<CollectiveContext> CollectiveContextOf(const Unit& unit, Communicator& group,
                                                      Stream& comm, StreamScratch* scratch);

// The error of a strategy that was to round and has no kernels.
absl::Status NeedsKernels(const Unit& unit, absl::string_view what);

// What gathers work with.
struct GatherTools {
  FullBuffers* buffers = nullptr;  // for full parameters
  Kernels* kernels = nullptr;      // as in StrategyContext
  // For shards that are offloaded, and rounded on their way: Offload's chunk_numel elements at
  // most.
  StreamScratch* staging = nullptr;
  StreamScratch* collective_scratch = nullptr;  // for units' own collectives
};

// Gives every segment of a sharded unit its place for full parameters, in a buffer that `comm` may
// write, or its shard where that is the same memory.
absl::Status AcquireFullParameters(Unit& unit, FullBuffers& buffers, Stream& comm);

// What this rank gives to the gather of a segment: its shard, or `slice` ([shard_numel] of
// param_dtype), into which it is rounded, or read from where it is offloaded to.
absl::StatusOr<Tensor> OwnPart(const Unit& unit, int segment, const Tensor& slice,
                               const GatherTools& tools, Stream& comm);

// Makes every segment full and moves the unit to kGathering: a shard is rounded into its slice,
// then all-gathered in place. Segments that are full already are used as they are; replicated
// ones cause no traffic.
absl::Status GatherSegments(Unit& unit, Communicator& group, const GatherTools& tools,
                            Stream& comm);
// Frees the full parameters: kGathered → kSharded.
absl::Status FreeGathered(Unit& unit, FullBuffers& buffers);

// Gives every trainable segment a place for full gradients of Unit::full_gradient_dtype: from
// `buffers`, or the memory that the optimizer will read where every rank holds all of it. kNone →
// kFull.
absl::Status PrepareFullGradients(Unit& unit, FullBuffers& buffers);

// Gaps and padding are reduced with the gradients; zeros there keep them zeros in every sum.
absl::Status ZeroGaps(Unit& unit, int segment, const Tensor& full, Stream& stream);

// Every segment's masters in full, each in memory of its own: for those who export or inspect
// what rounding would spoil. By segment; replicated segments are the shards themselves, unless
// these are offloaded. Leaves the unit's state alone.
absl::StatusOr<std::vector<Tensor>> GatherMasters(const Unit& unit, Communicator& group,
                                                  Stream& comm);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_FLAT_COLLECTIVES_H_
