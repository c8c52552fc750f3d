// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 3 / fully-sharded data parallelism (Rajbhandari et al., 2020; Zhao et al., "PyTorch
// FSDP", 2023): a unit's full parameters exist only around its forward and its backward. The root
// unit stays gathered in between, since it is used at both ends.

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/strategies/flat_strategy.h"

namespace zeroth {
namespace {

constexpr char kName[] = "full_shard";

class FullShard : public FlatStrategy {
 public:
  using FlatStrategy::FlatStrategy;

  absl::string_view name() const override { return kName; }
  StrategyCapabilities capabilities() const override {
    StrategyCapabilities serves = FlatStrategy::capabilities();
    serves.shares_buffers = options().reshard_after_forward;
    serves.post_forward_shard_size = options().reshard_after_forward;
    return serves;
  }

  // In groups it is hybrid_shard.
  absl::StatusOr<int> ShardSize(int world_size) const override { return world_size; }

 protected:
  bool KeepsGathered(const Unit& unit, Pass pass) const override {
    return KeepsAfterForward(unit, pass);
  }
};

const StrategyRegistration registration(kName, [](const StrategyOptions& options) {
  return std::make_unique<FullShard>(options);
});

}  // namespace
}  // namespace zeroth
