// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Full gradients → what the optimizer reads: one pipeline, whatever is sharded.

#pragma once

#include "absl/status/status.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// A stream that reductions run on, and what they use there.
struct ReductionStream {
  Stream* stream = nullptr;
  Kernels* kernels = nullptr;                   // on that stream; nullptr if nothing is rounded
  StreamScratch* scratch = nullptr;             // for fp32 sums
  StreamScratch* collective_scratch = nullptr;  // for units' own collectives
};

// How gradients are reduced, and what that takes.
struct ReductionOptions {
  ReduceOp op = ReduceOp::kMean;
  // Multiplies the complete sum (for a gradient divide factor other than the number of ranks).
  // Needs kernels unless it is 1.
  double scale = 1;
  // The stream for reductions inside groups.
  ReductionStream inside;
  // The stream for reductions across groups and all steps after them, beside which the next unit's
  // gradients are reduced inside groups. Without a stream here, the other one does both.
  ReductionStream across;
  // With a stream across: buffers for fp32 sums that are made inside groups and used across them.
  BufferSet* handed_over = nullptr;
  // Marks the work across groups.
  Timeline* timeline = nullptr;
};

// Reduces every trainable segment of a unit, as ShardingStrategy::SyncGradients says, in these
// steps: reduce inside the group → reduce across groups → scale → add to the sums of earlier
// micro-batches → round once → store, in memory or in the offload store. A segment skips the steps
// that it does not need. The unit's mesh says which groups these are. Sharded segments are
// reduce-scattered inside the shard group, and then all-reduced across groups, or reduce-scattered
// if owners span groups. Replicated segments are all-reduced over all ranks. Every step after the
// first is fp32 unless it is the last one, so that a sum in 16 bits is rounded once. Full buffers
// return to `buffers` as soon as they have been read.
//
// Without a tree over micro-batches, the first step adds to the fp32 shards that the step's earlier
// micro-batches have left, and only the last micro-batch takes the other steps. If owners span
// groups, micro-batches add up in memory, even if gradients are offloaded. Replicated segments, to
// whose full gradients layers add, are reduced by the last micro-batch only.
//
// Units with tree_micro_batches() above 1 take each micro-batch through all steps, and add its sum
// to a waiting sum of equally many micro-batches (tree_sum.h). Waiting sums are fp32, and are
// rounded at the end. Needs kernels. FailedPrecondition if a step has more or fewer micro-batches
// than the tree.
absl::Status ReduceGradients(Unit& unit, const ReductionOptions& options, GradientSync sync,
                             FullBuffers& buffers);

}  // namespace zeroth
