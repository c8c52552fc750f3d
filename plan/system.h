// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Models how other systems (--like) run a step under equal options, as far as that is published.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "zeroth/core/comm/planned/planned_communicator.h"
#include "zeroth/core/device/planned/planned_device.h"
#include "zeroth/options/options.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

struct PlannedSystem {
  PlannedCommunicator::Options comm;
  int64_t reserved_unused_bytes = 0;
  // PyTorch's unfused cross-entropy, in the master weights' dtype: an all-bf16 model does not
  // upcast its logits by float().
  bool unfused_loss = false;
  // Each reduction allocates a gradient shard on its own stream, whose memory no other stream
  // reuses.
  bool late_gradient_shards = false;
  // On one GPU, without FSDP, the whole backward is compiled into one graph. It produces all
  // gradients of a micro-batch, in the weights' dtype, before any is accumulated.
  bool backward_in_one = false;
  // Maps a unit's name to the number of elements of each of its parameters, for `comm.parts`.
  // LearnUnits fills it in.
  std::shared_ptr<std::map<std::string, std::vector<int64_t>>> parameters =
      std::make_shared<std::map<std::string, std::vector<int64_t>>>();
};

// Returns the system that options.like names, which must be valid.
PlannedSystem SystemOf(const TrainOptions& options);

void LearnUnits(const Sharding& sharding, PlannedSystem& system);

// Returns nullopt if the system's loss is fused, as this trainer's is.
std::optional<UnfusedLoss> UnfusedLossOf(const PlannedSystem& system, const TrainOptions& options,
                                         const Sharding& sharding);

// Returns the bytes of reduced gradient shards that are live at a step's end, if the system
// allocates them in the reductions (late_gradient_shards); otherwise 0. `in_full`: micro-batches
// accumulate in full gradients.
int64_t LateGradientShardBytes(const PlannedSystem& system, const TrainOptions& options,
                               bool in_full, const Sharding& sharding);

// Rewrites the memory snapshots of a step that produces gradients one by one into those of a
// backward_in_one system, where all gradients of a micro-batch appear together at the end of
// backward. Returns the one at that end, in `snapshots`, which must not be empty. `vocab`: rows
// of the embedding.
const PlannedAllocator::MemorySnapshot* MergeBackwardSnapshots(
    const TrainOptions& options, const Sharding& sharding, int64_t vocab,
    std::vector<PlannedAllocator::MemorySnapshot>& snapshots);

}  // namespace zeroth
