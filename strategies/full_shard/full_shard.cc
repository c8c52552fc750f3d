// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 3 / fully-sharded data parallelism (Rajbhandari et al., 2020; Zhao et al., "PyTorch
// FSDP", 2023): a unit's full parameters exist only around its forward and its backward. The root
// unit stays gathered in between, since it is used at both ends.

#include "absl/status/statusor.h"

#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

class FullShard : public FreesAfterForward {
 public:
  using FreesAfterForward::FreesAfterForward;

  // In groups it is hybrid_shard.
  absl::StatusOr<int> ShardSize(int world_size) const override { return world_size; }
};

const auto registration = StrategyRegistration::Of<FullShard>("full_shard");

}  // namespace
}  // namespace zeroth
