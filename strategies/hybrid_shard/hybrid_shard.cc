// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Fully sharded inside groups of ranks, and replicated across groups (FSDP's HYBRID_SHARD; MiCS:
// Zhang et al., 2022). Gathers stay inside a group. Gradients are reduce-scattered inside a group,
// and their shards are all-reduced across groups. StrategyOptions::shard_optimizer_over_world
// shards the optimizer's state over all ranks.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "zeroth/strategies/flat_strategy.h"

namespace zeroth {
namespace {

constexpr char kName[] = "hybrid_shard";

class HybridShard : public FlatStrategy {
 public:
  using FlatStrategy::FlatStrategy;

  absl::string_view name() const override { return kName; }
  StrategyCapabilities capabilities() const override {
    StrategyCapabilities serves = FlatStrategy::capabilities();
    serves.shares_buffers = options().reshard_after_forward;
    serves.post_forward_shard_size = options().reshard_after_forward;
    serves.shard_optimizer_over_world = true;
    return serves;
  }
  absl::StatusOr<int> ShardSize(int world_size) const override {
    const int size = options().shard_size;
    if (size > 0 && world_size % size == 0) return size;
    std::vector<int> allowed;
    for (int divisor = 1; divisor <= world_size; ++divisor) {
      if (world_size % divisor == 0) allowed.push_back(divisor);
    }
    const std::string wrong = size == 0
                                  ? "no shard size was given (the number of ranks in a group)"
                                  : absl::StrCat("shard size ", size, " does not divide the ",
                                                 world_size, " ranks that have data of their own");
    return absl::InvalidArgumentError(
        absl::StrCat(kName, ": ", wrong, "; give one of ", absl::StrJoin(allowed, ", ")));
  }

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override {
    return KeepsAfterForward(unit, pass);
  }
};

const StrategyRegistration registration(kName, [](const StrategyOptions& options) {
  return std::make_unique<HybridShard>(options);
});

}  // namespace
}  // namespace zeroth
