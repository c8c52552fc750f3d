// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/strategy.h"

#include <cmath>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, StrategyRegistry::Factory> factories;
};

Registry& GlobalRegistry() {
  static Registry* registry =
      new Registry;  // never destroyed: registrations and look-ups may outlive main
  return *registry;
}

absl::Status CheckTreeSums(absl::string_view name, const StrategyOptions& options,
                           const ShardingStrategy* strategy) {
  if (options.tree_micro_batches < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": tree_micro_batches is ", options.tree_micro_batches,
                     ", expected the micro-batches of a rank's step, or 0 for no tree over them"));
  }
  if (options.gradient_op != ReduceOp::kSum || options.gradient_divide_factor != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     ": tree_micro_batches goes with gradient_op kSum and no divide factor: what "
                     "gradients are divided by belongs into the loss"));
  }
  if (strategy != nullptr && !strategy->SupportsTreeSums()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     ": this strategy does not sum micro-batches in a tree (tree_micro_batches); "
                     "leave it out, or use a strategy that comes with the project"));
  }
  return absl::OkStatus();
}

}  // namespace

void StrategyRegistry::Register(absl::string_view name, Factory factory) {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const bool inserted = registry.factories.emplace(std::string(name), std::move(factory)).second;
  ZEROTH_CHECK(inserted && "a strategy with this name is already registered");
}

absl::StatusOr<std::unique_ptr<ShardingStrategy>> StrategyRegistry::Create(
    absl::string_view name, const StrategyOptions& options) {
  Factory factory;
  {
    Registry& registry = GlobalRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    const auto found = registry.factories.find(std::string(name));
    if (found != registry.factories.end()) factory = found->second;
  }
  if (factory == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown sharding strategy '", name,
                     "'; the ones linked in are: ", absl::StrJoin(Names(), ", ")));
  }
  if (options.shard_size < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": shard size ", options.shard_size,
                     " is negative; give the number of ranks in a shard group, "
                     "or 0 for the strategy's default"));
  }
  if (options.gradient_op == ReduceOp::kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": gradients combine by mean or sum, not by maximum"));
  }
  if (!std::isfinite(options.gradient_divide_factor) || options.gradient_divide_factor < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": gradient_divide_factor is ", options.gradient_divide_factor,
                     ", expected a finite number above 0 that sums of gradients are divided by, or "
                     "0 for gradient_op to decide"));
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<ShardingStrategy> strategy, factory(options));
  const bool over_world = strategy != nullptr && strategy->ShardsOptimizerOverWorld();
  if (options.shard_optimizer_over_world && !over_world) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     ": shard_optimizer_over_world cuts the optimizer's state beyond shard groups, "
                     "which this strategy does not; leave it out, or use hybrid_shard"));
  }
  if (options.tree_micro_batches != 0) {
    ZEROTH_RETURN_IF_ERROR(CheckTreeSums(name, options, strategy.get()));
  }
  return strategy;
}

std::vector<std::string> StrategyRegistry::Names() {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, factory] : registry.factories) names.push_back(name);
  return names;
}

}  // namespace zeroth
