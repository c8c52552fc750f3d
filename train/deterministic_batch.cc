// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/deterministic_batch.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zeroth {

absl::StatusOr<int64_t> MicroBatchesPerRank(int64_t micro_batches, int world_size) {
  if (micro_batches < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a deterministic batch of ", micro_batches,
                                                   " micro-batches, expected at least 1"));
  }
  std::vector<int64_t> allowed;
  for (int64_t ranks = 1; micro_batches % ranks == 0; ranks *= 2) {
    if (ranks == world_size) return micro_batches / ranks;
    allowed.push_back(ranks);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a deterministic batch of ", micro_batches, " micro-batches cannot be divided among ",
      world_size, " ranks; expected a world size that is a power of two and divides it: ",
      absl::StrJoin(allowed, ", ")));
}

}  // namespace zeroth
