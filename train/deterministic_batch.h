// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A global batch of a fixed number of micro-batches, divided among any number of ranks: rank r of W
// computes micro-batches r, r + W, r + 2 W, …

#ifndef ZEROTH_TRAIN_DETERMINISTIC_BATCH_H_
#define ZEROTH_TRAIN_DETERMINISTIC_BATCH_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace zeroth {

// Returns the number of micro-batches of each rank. InvalidArgument unless the world size is a
// power of two that divides `micro_batches`: only then are the ranks' own sums parts of the fixed
// tree over the micro-batches (strategies/tree_sum.h). The error lists the allowed world sizes.
absl::StatusOr<int64_t> MicroBatchesPerRank(int64_t micro_batches, int world_size);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_DETERMINISTIC_BATCH_H_
