// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Full gradients → what the optimizer reads: one pipeline, whatever is sharded.

#ifndef ZEROTH_STRATEGIES_GRADIENT_REDUCTION_H_
#define ZEROTH_STRATEGIES_GRADIENT_REDUCTION_H_

#include "absl/status/status.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/stream_scratch.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// A stream that reductions run on, with what there is for them: memory for fp32 sums and for units'
// own collectives, both with the kernels of the stream.
struct ReductionStream {
  Stream* stream = nullptr;
  StreamScratch* scratch = nullptr;
  StreamScratch* collective_scratch = nullptr;
};

// What comes of the sum of gradients over ranks, and what it takes.
struct ReductionOptions {
  ReduceOp op = ReduceOp::kMean;
  // What the complete sum is multiplied by (a gradient divide factor other than the number of
  // ranks). Needs kernels unless it is 1.
  double scale = 1;
  ReductionStream inside;
  // For the sum across groups, and whatever comes after it: beside it the next unit's gradients are
  // reduced inside groups. Without a stream all of it is on the other one.
  ReductionStream across;
  // With a stream across: buffers for fp32 sums that are made inside and used across.
  BufferSet* handed_over = nullptr;
  // Where to mark what is done across groups.
  Timeline* timeline = nullptr;
};

// Takes every trainable segment of a unit, as ShardingStrategy::SyncGradients says, through these
// steps: reduce inside the group → reduce across groups → scale → add to what waits → round once →
// store, in memory or in the offload store. A step that a segment does not need is left out. Which
// groups these are says the unit's mesh: shards are reduce-scattered inside the shard group, and
// all-reduced across groups, or reduce-scattered where owners span groups; segments that every rank
// keeps replicated are all-reduced over all ranks. Everything after the first step is fp32 unless
// the step is the last one, so that a sum in 16 bits is rounded once. Full buffers go back to
// `buffers`, as soon as they are read where sums across groups do not need them.
//
// Without a tree, the shards of a step's earlier micro-batches are what the first step adds to, in
// fp32; the steps after it are left to the last micro-batch. Where owners span groups,
// micro-batches add up in memory, also if gradients are offloaded. Replicated segments, to
// whose full gradients layers add, are not reduced before the last micro-batch at all.
//
// Units with tree_micro_batches() above 1 take each micro-batch through all steps, and add it to
// the sums of equal size that wait (tree_sum.h); what waits is fp32 and is rounded at the end.
// Needs kernels. FailedPrecondition if the step has more or fewer micro-batches than it should.
absl::Status ReduceGradients(Unit& unit, const ReductionOptions& options, GradientSync sync,
                             FullBuffers& buffers);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_GRADIENT_REDUCTION_H_
