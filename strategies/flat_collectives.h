// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What strategies on flat units share: buffers for a unit's full parameters and gradients, and the
// gathers that fill them from shards. Reductions are in gradient_reduction.h.

#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/full_buffers.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// The context of a unit's collectives. `kernels` and `scratch` may be nullptr, but
// FailedPrecondition if they are and the unit has collectives of its own.
absl::StatusOr<CollectiveContext> CollectiveContextOf(const Unit& unit, Communicator& group,
                                                      Stream& comm, Kernels* kernels,
                                                      StreamScratch* scratch);

// The error of a strategy that has no kernels, and has to round for `what`.
absl::Status NeedsKernels(const Unit& unit, absl::string_view what);

// What gathers work with.
struct GatherTools {
  FullBuffers* buffers = nullptr;  // for full parameters
  Kernels* kernels = nullptr;      // as StrategyContext::gather_kernels
  // Staging for offloaded shards that are rounded: OffloadOptions::chunk_numel elements at most.
  StreamScratch* staging = nullptr;
  StreamScratch* collective_scratch = nullptr;  // for units' own collectives
};

// Gives every segment of a sharded unit memory for its full parameters: a place in a buffer that
// `comm` may write, or its shard if that is the same memory. Returns the context of the gather that
// fills it.
absl::StatusOr<CollectiveContext> PrepareGather(Unit& unit, Communicator& group,
                                                const GatherTools& tools, Stream& comm);

// Returns what this rank contributes to the gather of a segment: its shard, or `slice`
// ([shard_numel] of param_dtype), after rounding the shard into it, or reading the shard from the
// offload store.
absl::StatusOr<Tensor> OwnPart(const Unit& unit, int segment, const Tensor& slice,
                               const GatherTools& tools, Stream& comm);

// Gathers every segment, and moves the unit from kSharded to kGathering. Each shard is rounded into
// its slice of the full buffer, and all-gathered there in place. Segments whose shard is the full
// buffer are used as they are; replicated segments cause no traffic.
absl::Status GatherSegments(Unit& unit, Communicator& group, const GatherTools& tools,
                            Stream& comm);
// Frees the full parameters: kGathered → kSharded.
absl::Status FreeGathered(Unit& unit, FullBuffers& buffers);

// Gives every trainable segment memory for full gradients of Unit::full_gradient_dtype: from
// `buffers`, or the memory that the optimizer will read if every rank holds all of the segment.
// kNone → kFull.
absl::Status PrepareFullGradients(Unit& unit, FullBuffers& buffers);

// Zeroes gaps and padding, which are reduced with the gradients, so that they are zeros in every
// sum.
absl::Status ZeroGaps(Unit& unit, int segment, const Tensor& full, Stream& stream);

// Returns every segment's masters in full and unrounded, by segment, for exports and inspection.
// Each is in memory of its own, except that replicated segments are their shards unless these are
// offloaded. Leaves the unit's state as it is.
absl::StatusOr<std::vector<Tensor>> GatherMasters(const Unit& unit, Communicator& group,
                                                  Stream& comm);

}  // namespace zeroth
