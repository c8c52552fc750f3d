// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/global_batch.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace zeroth {

int64_t GlobalBatchSize(const TrainOptions& options) {
  return options.batch_size * options.grad_accum * options.world_size;
}

absl::StatusOr<TrainOptions> WithGlobalBatch(TrainOptions options) {
  if (options.global_batch_size == 0) return options;
  const int64_t micro_batches = options.grad_accum * options.world_size;
  if (options.global_batch_size % micro_batches != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--global_batch_size=", options.global_batch_size, " over ", options.world_size,
        " ranks with ", options.grad_accum,
        options.grad_accum == 1 ? " micro-batch" : " micro-batches",
        " each: expected a multiple of ", micro_batches, "; take one, or another --world_size or ",
        options.deterministic_batch > 0 ? "--deterministic_batch" : "--grad_accum"));
  }
  const int64_t batch_size = options.global_batch_size / micro_batches;
  if (options.batch_size != TrainOptions().batch_size && options.batch_size != batch_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--global_batch_size=", options.global_batch_size, " and --batch_size=", options.batch_size,
        ": the one follows from the other, and makes it ", batch_size, "; leave one out"));
  }
  options.batch_size = batch_size;
  return options;
}

}  // namespace zeroth
