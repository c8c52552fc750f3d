// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Gradients of a step's micro-batches summed along one binary tree, of which the ranks' own tree is
// the lower part: the same bits however many ranks share the micro-batches.

#ifndef ZEROTH_STRATEGIES_TREE_SUM_H_
#define ZEROTH_STRATEGIES_TREE_SUM_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/device/device.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/stream_scratch.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// The sum over M leaves of a step, leaf j * W + r being micro-batch j of rank r of W. The tree's
// left half has the largest power of two of leaves that is below M, and so on in each half, as
// communicator.h sums over ranks. Where W is a power of two that divides M, the W leaves of one
// micro-batch are a subtree, whichever W it is; what remains is the same tree over n = M / W
// sums, which come one after the other. It is climbed as a binary counter counts: sums of equal
// numbers of leaves are added as soon as there are two, so that no more than one of each size
// waits (pairwise summation, Higham, 1993).

// Places for sums that this takes for n of them, the result's own among them: log2(n + 1), rounded
// down.
int TreeSumLevels(int64_t n);

// As ReduceGradients, for units that sum in a tree (Unit::tree_micro_batches() above 1), whose
// `groups` and sums are without scale. Each micro-batch is reduced over all ranks, also across
// groups. Sums are fp32 and rounded once, at the end; TreeSumLevels() shards of gradients in fp32
// are allocated, of which the first is what the optimizer reads if that is fp32 in memory. Needs
// kernels. FailedPrecondition if the step has more or fewer micro-batches than it should.
absl::Status SumGradientsInTree(Unit& unit, const GradientGroups& groups, GradientSync sync,
                                FullBuffers& buffers, StreamScratch& scratch, Stream& comm);

// FailedPrecondition unless the unit's next micro-batch is one of a step of `micro_batches`, and
// the last one if and only if `sync` says so.
absl::Status ExpectPlaceInTree(const Unit& unit, int64_t micro_batches, GradientSync sync);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_TREE_SUM_H_
