// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/hybrid_shard/hybrid_shard.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace zeroth {

StatePlacement HybridShard::placement() const {
  return {.parameters = true, .gradients = true, .optimizer = true};
}

absl::StatusOr<int> HybridShard::ShardSize(int world_size) const {
  const int size = options().shard_size;
  if (size > 0 && world_size % size == 0) return size;
  std::vector<int> allowed;
  for (int divisor = 1; divisor <= world_size; ++divisor) {
    if (world_size % divisor == 0) allowed.push_back(divisor);
  }
  const std::string wrong =
      size == 0 ? "no shard size was given (the number of ranks in a group)"
                : absl::StrCat("shard size ", size, " does not divide the world size ", world_size);
  return absl::InvalidArgumentError(
      absl::StrCat(kName, ": ", wrong, "; give one of ", absl::StrJoin(allowed, ", ")));
}

bool HybridShard::KeepsGathered(const Unit& unit, Pass pass) const {
  return pass == Pass::kForward && (unit.is_root() || !options().reshard_after_forward);
}

namespace {

const StrategyRegistration registration(HybridShard::kName, [](const StrategyOptions& options) {
  return std::make_unique<HybridShard>(options);
});

}  // namespace
}  // namespace zeroth
