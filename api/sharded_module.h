// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A model, or parameters of one's own, under a sharding strategy.

#ifndef ZEROTH_API_SHARDED_MODULE_H_
#define ZEROTH_API_SHARDED_MODULE_H_

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

// What FullyShard returns: the sharded parameters of one rank, the hooks that gather and reduce
// them around a model's forward and backward, and what operations run with. Collective: every rank
// makes the same calls in the same order. One rank's thread only.
class ShardedModule {
 public:
  // As FullyShard, with values unset until Sharding::Initialize, Sharding::Load or Load. The plan's
  // units may have been given axes, a precision or collectives of their own (UnitSpec).
  // A model that has been divided (DivideModel) by `tensor` gets a mesh with kTensorAxis inside,
  // and a context with these ranks: tensor.size neighbouring ranks have the same data.
  static absl::StatusOr<std::unique_ptr<ShardedModule>> Create(
      Rank& rank, const WrapPlan& plan, const ShardingOptions& options,
      const TensorParallelOptions& tensor = {});

  Rank& rank() { return rank_; }
  Sharding& sharding() { return *sharding_; }
  Kernels& kernels() { return rank_.kernels(); }
  // What operations of nn run with. Within a TrainingStep they are recorded for its backward;
  // for inference, have a NoGradient(tape()).
  Context& context() { return *context_; }
  Tape& tape() { return tape_; }

  // OK, or the error of an update that may have changed a part of the values: no step and no Save
  // is possible then until a checkpoint is loaded.
  const absl::Status& status() const { return status_; }
  // Updates so far, by TrainingStep.
  int64_t steps() const { return steps_; }

  // Saves the parameters, and `optimizer`'s states if it is given, as the checkpoint
  // `directory`/step-N, N = steps(): a file of each rank's, and complete or not at all. The two
  // newest are kept. It loads at any world size under any strategy. Between steps; AlreadyExists if
  // there is one of this step.
  absl::Status Save(const std::string& directory, const Optimizer* optimizer = nullptr);
  // Goes on from the newest checkpoint in `directory`, or from the one that `directory` is: values,
  // steps() and the optimizer's states and steps; states that the checkpoint lacks become zeros.
  // NotFound if there is none; FailedPrecondition lists the parameters that differ, and changes
  // nothing. The same error on every rank. Between steps.
  absl::Status Load(const std::string& directory, Optimizer* optimizer = nullptr);

 private:
  friend class TrainingStep;
  explicit ShardedModule(Rank& rank) : rank_(rank) {}
  // This rank's part of Load, without asking others.
  absl::Status LoadOwn(const std::string& path, Optimizer* optimizer);

  Rank& rank_;
  std::unique_ptr<Sharding> sharding_;
  std::unique_ptr<ShardingHooks> hooks_;       // nullptr without modules
  std::unique_ptr<TensorRanks> tensor_ranks_;  // nullptr unless parameters are divided
  Tape tape_;
  std::unique_ptr<Context> context_;
  int64_t steps_ = 0;
  absl::Status status_;  // why there is no going on, but by Load
};

// Shards `model` over the ranks: `wrap` says which modules become units, gathered and freed
// together, by default each block and the rest as the root. Parameters begin with the values of
// their initializers, which `seed` draws the same at every world size. `rank` and `model` outlive
// the result. Errors are those of Sharding::Create.
absl::StatusOr<std::unique_ptr<ShardedModule>> FullyShard(Rank& rank, Module& model,
                                                          const ShardingOptions& options = {},
                                                          const WrapPolicy& wrap = WrapBlocks(),
                                                          uint64_t seed = 0);
// The same for units of parameters without modules, whose forward and backward are written by hand
// (UnitPass).
absl::StatusOr<std::unique_ptr<ShardedModule>> FullyShard(Rank& rank, std::vector<UnitSpec> units,
                                                          const ShardingOptions& options = {},
                                                          uint64_t seed = 0);

}  // namespace zeroth

#endif  // ZEROTH_API_SHARDED_MODULE_H_
