// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_GLOBAL_BATCH_H_
#define ZEROTH_TRAIN_GLOBAL_BATCH_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "zeroth/train/options.h"

namespace zeroth {

// Sequences that all ranks together train on in a step. The world size is known.
int64_t GlobalBatchSize(const TrainOptions& options);

// `options`, whose world size and grad_accum are known, with batch_size as global_batch_size asks
// for; without it as they are. InvalidArgument if it does not divide among ranks and micro-batches,
// or if batch_size says otherwise.
absl::StatusOr<TrainOptions> WithGlobalBatch(TrainOptions options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_GLOBAL_BATCH_H_
