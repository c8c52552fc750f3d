// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/shard_module.h"

#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/replicated_module.h"
#include "zeroth/strategies/mixed_precision.h"

namespace zeroth {
namespace {

// A module that becomes a unit, with its parameters outside the units below it.
struct Wrapped {
  Module* module;
  std::vector<Parameter*> parameters;
};

bool IsReplicated(const Module& module) {
  return dynamic_cast<const ReplicatedModule*>(&module) != nullptr;
}

// How many times the modules of a tree, or of a part of it, declare each parameter.
using Uses = std::map<const Parameter*, int>;

// The parameters that no unit has yet, in order of declaration, with their uses so far.
struct Unwrapped {
  std::vector<Parameter*> parameters;
  Uses uses;

  void Add(Parameter* parameter, int count) {
    if (uses[parameter] == 0) parameters.push_back(parameter);
    uses[parameter] += count;
  }
};

// Returns the unwrapped parameters of `module` and its descendants, and appends their units to
// `wrapped`, parents before children. A parameter that modules outside use too (`all` counts all
// uses) is left to a module above all of its users, since it has to be gathered for each of them.
Unwrapped Collect(Module& module, const WrapPolicy& policy, bool is_root, const Uses& all,
                  std::vector<Wrapped>& wrapped) {
  Unwrapped mine;
  for (Parameter* parameter : module.own_parameters()) mine.Add(parameter, 1);
  std::vector<Wrapped> below;
  for (Module* child : module.children()) {
    const Unwrapped rest = Collect(*child, policy, /*is_root=*/false, all, below);
    for (Parameter* parameter : rest.parameters) mine.Add(parameter, rest.uses.at(parameter));
  }
  std::vector<Parameter*> own;
  Unwrapped shared;
  int64_t numel = 0;
  for (Parameter* parameter : mine.parameters) {
    const int count = mine.uses.at(parameter);
    if (count < all.at(parameter)) {
      shared.Add(parameter, count);
      continue;
    }
    own.push_back(parameter);
    numel += parameter->numel();
  }
  const bool wraps = is_root || (!own.empty() && (IsReplicated(module) || policy(module, numel)));
  if (wraps) wrapped.push_back({&module, std::move(own)});
  wrapped.insert(wrapped.end(), std::make_move_iterator(below.begin()),
                 std::make_move_iterator(below.end()));
  return wraps ? shared : mine;
}

class UnitHooks : public ModuleHooks {
 public:
  UnitHooks(Scheduler& scheduler, Unit& unit) : scheduler_(scheduler), unit_(unit) {}

  absl::Status BeforeForward(bool recording) override {
    return scheduler_.BeforeForward(unit_, recording);
  }
  absl::Status AfterForward(bool recording) override {
    return scheduler_.AfterForward(unit_, recording);
  }
  absl::Status BeforeBackward() override { return scheduler_.BeforeBackward(unit_); }
  absl::Status AfterBackward() override { return scheduler_.AfterBackward(unit_); }
  // The caller reports the error that led here. A broken communicator returns its error again at
  // the next call.
  void AfterError() override { scheduler_.Abandon().IgnoreError(); }
  // The root's input is tokens, which are not cast; its submodules have its type.
  std::optional<DType> input_dtype() const override {
    if (!unit_.precision().cast_forward_inputs) return std::nullopt;
    return unit_.precision().param_dtype;
  }
  std::optional<DType> output_dtype() const override { return unit_.precision().output_dtype; }

 private:
  Scheduler& scheduler_;
  Unit& unit_;
};

}  // namespace

WrapPolicy WrapBlocks() {
  return [](const Module& module, int64_t) {
    return module.is_block() || module.role() == Module::Role::kExperts;
  };
}

WrapPolicy WrapByMinNumel(int64_t min_numel) {
  return
      [min_numel](const Module&, int64_t unwrapped_numel) { return unwrapped_numel >= min_numel; };
}

WrapPolicy WrapNorms(WrapPolicy others) {
  return [others = std::move(others)](const Module& module, int64_t unwrapped_numel) {
    return module.role() == Module::Role::kNorm || others(module, unwrapped_numel);
  };
}

WrapPolicy WrapNothing() {
  return [](const Module&, int64_t) { return false; };
}

WrapPlan PlanUnits(Module& model, const WrapPolicy& policy) {
  std::vector<Wrapped> wrapped;
  Uses all;
  for (const Module* module : ModulesOf<const Module>(model)) {
    for (const Parameter* parameter : module->own_parameters()) ++all[parameter];
  }
  Collect(model, policy, /*is_root=*/true, all, wrapped);
  WrapPlan plan;
  std::set<std::string> names;
  for (Wrapped& entry : wrapped) {
    UnitSpec unit;
    unit.is_root = entry.module == &model;
    unit.name = unit.is_root ? "root" : entry.module->name();
    // A container may have the name of a layer inside; messages must tell them apart.
    for (int copy = 2; !names.insert(unit.name).second; ++copy)
      unit.name = absl::StrCat(entry.module->name(), "#", copy);
    unit.parameters = std::move(entry.parameters);
    if (!unit.is_root && IsReplicated(*entry.module)) {
      unit.precision = MixedPrecision{.cast_forward_inputs = false};
      unit.axes = {.replicated = {kReplicateAxis, kShardAxis}, .sharded = {}};
    }
    plan.units.push_back(std::move(unit));
    plan.modules.push_back(entry.module);
  }
  return plan;
}

ShardingHooks::~ShardingHooks() {
  for (Module* module : modules_) module->set_hooks(nullptr);
}

absl::StatusOr<std::unique_ptr<ShardingHooks>> ShardingHooks::Attach(const WrapPlan& plan,
                                                                     Sharding& sharding) {
  const absl::Span<Unit* const> units = sharding.units();
  if (units.size() != plan.modules.size()) {
    return InvalidArgument("sharding hooks: the plan has ", plan.modules.size(),
                           " units, the sharding ", units.size(),
                           "; create the sharding from the plan's units");
  }
  std::unique_ptr<ShardingHooks> hooks(new ShardingHooks);
  for (size_t i = 0; i < units.size(); ++i) {
    if (units[i]->name() != plan.units[i].name) {
      return InvalidArgument("sharding hooks: unit ", i, " is '", units[i]->name(),
                             "', the plan says '", plan.units[i].name, "'");
    }
    if (plan.modules[i] == nullptr) {
      return InvalidArgument("sharding hooks: the plan has no module for unit '", units[i]->name(),
                             "' (it is null); use the plan as PlanUnits makes it");
    }
    hooks->hooks_.push_back(std::make_unique<UnitHooks>(sharding.scheduler(), *units[i]));
    hooks->modules_.push_back(plan.modules[i]);
    plan.modules[i]->set_hooks(hooks->hooks_.back().get());
  }
  return hooks;
}

}  // namespace zeroth
