// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Shards a model, or parameters without modules, by a strategy.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/api/rank.h"
#include "zeroth/nn/module.h"
#include "zeroth/nn/shard_module.h"
#include "zeroth/nn/tape.h"
#include "zeroth/nn/tensor_ranks.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

class TrainingStep;

// The result of FullyShard: the sharded parameters of one rank, the hooks that gather and reduce
// them around a model's forward and backward, and the context of operations. Collective: every rank
// makes the same calls in the same order. Used by one rank's thread only.
class ShardedModule {
 public:
  // Like FullyShard, but values are unset until Sharding::Initialize, Sharding::Load or Load. The
  // plan's units may override axes, precision or collectives (UnitSpec). For a model that
  // DivideModel has divided, pass the same `tensor`: the mesh then has kTensorAxis inside, and
  // tensor.size neighbouring ranks have the same data.
  static absl::StatusOr<std::unique_ptr<ShardedModule>> Create(
      Rank& rank, const WrapPlan& plan, const ShardingOptions& options,
      const TensorParallelOptions& tensor = {});

  Rank& rank() { return rank_; }
  Sharding& sharding() { return *sharding_; }
  Kernels& kernels() { return rank_.kernels(); }
  // The context of nn's operations. In a TrainingStep they are recorded for its backward; for
  // inference, keep a NoGradient(tape()).
  Context& context() { return *context_; }
  Tape& tape() { return tape_; }

  // OK, or the error of an update or a Load that may have changed a part of the values. Then
  // neither a step nor Save is possible until a checkpoint is loaded.
  const absl::Status& status() const { return status_; }
  // The number of steps that TrainingStep::Update has ended, skipped ones included.
  int64_t steps() const { return steps_; }

  // Saves the parameters, and `optimizer`'s states if it is given, as the checkpoint
  // `directory`/step-N, N = steps(). Each rank writes a file, and the checkpoint is complete or
  // does not exist. The two newest are kept. It loads at any world size, under any strategy. Within
  // a TrainingStep that has not updated yet, it saves the state before that step. AlreadyExists if
  // there is a checkpoint of this step.
  absl::Status Save(const std::string& directory, const Optimizer* optimizer = nullptr);
  // Loads the newest checkpoint in `directory`, or the checkpoint that `directory` is: values,
  // steps(), and the optimizer's states and steps. States that the checkpoint lacks become zeros.
  // Call it between steps. NotFound if there is none; FailedPrecondition lists the parameters that
  // differ, or names a unit that is within a step, and changes nothing. After other errors, such as
  // DataLoss, see status(). The same error on every rank.
  absl::Status Load(const std::string& directory, Optimizer* optimizer = nullptr);

 private:
  friend class TrainingStep;
  explicit ShardedModule(Rank& rank) : rank_(rank) {}

  Rank& rank_;
  std::unique_ptr<Sharding> sharding_;
  std::unique_ptr<ShardingHooks> hooks_;       // nullptr without modules
  std::unique_ptr<TensorRanks> tensor_ranks_;  // nullptr unless parameters are divided
  Tape tape_;
  std::unique_ptr<Context> context_;
  TrainingStep* live_step_ = nullptr;  // has begun and not ended
  int64_t steps_ = 0;
  absl::Status status_;
};

// Shards `model` over the ranks. `wrap` chooses the modules that become units, which are gathered
// and freed together: by default each block, and the rest as the root. Initializers set the
// parameters' values, which depend on `seed` and not on the world size. `rank` and `model` outlive
// the result. Errors are those of Sharding::Create.
absl::StatusOr<std::unique_ptr<ShardedModule>> FullyShard(Rank& rank, Module& model,
                                                          const ShardingOptions& options = {},
                                                          const WrapPolicy& wrap = WrapBlocks(),
                                                          uint64_t seed = 0);
// Like the function above, for units without modules, whose forward and backward are written by
// hand (UnitPass).
absl::StatusOr<std::unique_ptr<ShardedModule>> FullyShard(Rank& rank, std::vector<UnitSpec> units,
                                                          const ShardingOptions& options = {},
                                                          uint64_t seed = 0);

}  // namespace zeroth
