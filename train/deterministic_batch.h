// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A global batch of a fixed number of micro-batches, divided among however many ranks there are:
// rank r of W computes micro-batches r, r + W, r + 2 W, …

#ifndef ZEROTH_TRAIN_DETERMINISTIC_BATCH_H_
#define ZEROTH_TRAIN_DETERMINISTIC_BATCH_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace zeroth {

// The micro-batches of each rank. InvalidArgument unless the world size is a power of two that
// divides `micro_batches`, so that what ranks add up in their own tree is a part of the tree over
// the micro-batches (strategies/tree_sum.h); it lists the world sizes that are.
absl::StatusOr<int64_t> MicroBatchesPerRank(int64_t micro_batches, int world_size);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_DETERMINISTIC_BATCH_H_
