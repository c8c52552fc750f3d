// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// ZeRO stage 2 (Rajbhandari et al., 2020): gradients and optimizer state are sharded, and so are
// parameters between steps. A unit stays gathered from its first use to the step's end. (FSDP's
// SHARD_GRAD_OP frees it after its backward, as full_shard without reshard_after_forward.) With a
// shard size, state is replicated across groups of ranks (FSDP's _HYBRID_SHARD_ZERO2).

#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

const auto registration = StrategyRegistration::Of<ShardingStrategy>("shard_grad_op");

}  // namespace
}  // namespace zeroth
