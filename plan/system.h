// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How other systems (--like) make a step under equal options, as far as that is published.

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
  // PyTorch's cross-entropy, in the type of the masters: a model that is in bf16 as a whole has no
  // float() around its logits.
  bool unfused_loss = false;
  // The reduction allocates a shard of gradients, on a stream whose memory no other stream gets.
  bool late_gradient_shards = false;
  // One GPU has no FSDP. The whole backward is compiled into one piece, which makes all gradients
  // of a micro-batch, in the weights' type, before they are added to those of earlier ones.
  bool backward_in_one = false;
  // Elements of the parameters of each unit, by its name, for `comm.parts`. LearnUnits fills it in.
  std::shared_ptr<std::map<std::string, std::vector<int64_t>>> parameters =
      std::make_shared<std::map<std::string, std::vector<int64_t>>>();
};

// `options.like` is valid.
PlannedSystem SystemOf(const TrainOptions& options);

void LearnUnits(const Sharding& sharding, PlannedSystem& system);

// nullopt: this trainer's loss.
std::optional<UnfusedLoss> UnfusedLossOf(const PlannedSystem& system, const TrainOptions& options,
                                         const Sharding& sharding);

// Bytes of the shards of reduced gradients that a rank holds when its step ends, if only the
// reductions make them; otherwise 0. `in_full`: micro-batches add up in full gradients.
int64_t LateGradientShardBytes(const PlannedSystem& system, const TrainOptions& options,
                               bool in_full, const Sharding& sharding);

// Turns the moments of a step that adds up gradients one by one into those of a system whose
// backward is one piece: all gradients exist from the backward's end on. Returns that end, one of
// `moments`, which are not empty. `vocab`: of the embedding.
const PlannedAllocator::Moment* MakeBackwardOnePiece(
    const TrainOptions& options, const Sharding& sharding, int64_t vocab,
    std::vector<PlannedAllocator::Moment>& moments);

}  // namespace zeroth
