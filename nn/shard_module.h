// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Where models meet sharding: which modules become units, and the hooks that drive the scheduler
// around them.

#ifndef ZEROTH_NN_SHARD_MODULE_H_
#define ZEROTH_NN_SHARD_MODULE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/nn/module.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Says whether a module becomes a unit. Asked of every module but the root, children before
// parents; `unwrapped_numel` is what the module and its descendants hold that no unit below has
// taken and no module outside uses.
using WrapPolicy = std::function<bool(const Module& module, int64_t unwrapped_numel)>;

// One unit for each block (Module::is_block), and one for the experts of each layer, which most of
// a mixture's parameters are: the default.
WrapPolicy WrapBlocks();
// A unit as soon as at least `min_numel` parameters come together.
WrapPolicy WrapByMinNumel(int64_t min_numel);
// A unit for each norm (Module::Role::kNorm) too, which can then have a precision of its own.
WrapPolicy WrapNorms(WrapPolicy others);
// The whole model is one unit.
WrapPolicy WrapNothing();

// The units of a model, in order of declaration, the root first, and the module that each one
// stands for. A parameter belongs to the nearest wrapped module above all modules that use it (one,
// unless it is tied), or to the root.
struct WrapPlan {
  std::vector<UnitSpec> units;
  std::vector<Module*> modules;
};
// The root unit is named "root", others as their modules.
WrapPlan PlanUnits(Module& model, const WrapPolicy& policy);

// Hooks on every module of a plan while it exists; `sharding`, made from the plan's units, and the
// modules must outlive it. Errors in a pass leave everything sharded.
class ShardingHooks {
 public:
  // InvalidArgument if the units of `sharding` are not the plan's, or a module is null.
  static absl::StatusOr<std::unique_ptr<ShardingHooks>> Attach(const WrapPlan& plan,
                                                               Sharding& sharding);
  ~ShardingHooks();

 private:
  class UnitHooks;
  ShardingHooks();

  std::vector<Module*> modules_;
  std::vector<std::unique_ptr<UnitHooks>> hooks_;
};

}  // namespace zeroth

#endif  // ZEROTH_NN_SHARD_MODULE_H_
