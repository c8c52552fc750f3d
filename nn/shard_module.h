// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Connects models with sharding: chooses the modules that become units, and attaches hooks that
// call the scheduler around them.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/nn/module.h"
#include "zeroth/strategies/sharding.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Returns true if a module becomes a unit. It is called for every module but the root, children
// before parents. `unwrapped_numel` counts the elements of parameters in the module and its
// descendants, except for those in units below it and those shared with modules outside it.
using WrapPolicy = std::function<bool(const Module& module, int64_t unwrapped_numel)>;

// The default: a unit for each block (Module::is_block), and one for the experts of each layer,
// which are most of a mixture's parameters.
WrapPolicy WrapBlocks();
// A unit for each module with at least `min_numel` unwrapped elements.
WrapPolicy WrapByMinNumel(int64_t min_numel);
// As `others`, with a unit for each norm (Module::Role::kNorm) in addition, so that norms can have
// another precision.
WrapPolicy WrapNorms(WrapPolicy others);
// The whole model is one unit.
WrapPolicy WrapNothing();

// The units of a model in order of declaration, the root first, and their modules. A parameter
// belongs to the innermost wrapped module that contains all modules that use it (several, if it is
// tied), or to the root.
struct WrapPlan {
  std::vector<UnitSpec> units;
  std::vector<Module*> modules;
};
// The root unit is named "root"; other units have the names of their modules. A ReplicatedModule is
// a unit under every policy.
WrapPlan PlanUnits(Module& model, const WrapPolicy& policy);

// Keeps hooks on every module of a plan while it exists. `sharding`, which was made from the plan's
// units, and the modules outlive it. Errors in a pass leave everything sharded.
class ShardingHooks {
 public:
  // InvalidArgument if the units of `sharding` are not the plan's, or a module is null.
  static absl::StatusOr<std::unique_ptr<ShardingHooks>> Attach(const WrapPlan& plan,
                                                               Sharding& sharding);
  ~ShardingHooks();

 private:
  ShardingHooks() = default;

  std::vector<Module*> modules_;
  std::vector<std::unique_ptr<ModuleHooks>> hooks_;
};

}  // namespace zeroth
