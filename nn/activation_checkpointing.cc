// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/activation_checkpointing.h"

#include <cstddef>
#include <iterator>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// What modules of one role recompute under one choice.
struct Choice {
  absl::string_view name;
  Module::Role role;
  Recomputes recomputes;
};

// By ActivationCheckpointing.
constexpr Choice kChoices[] = {
    {"none", Module::Role::kOther, Recomputes::kNothing},
    {"block", Module::Role::kBlock, Recomputes::kAll},
    {"selective", Module::Role::kBlock, Recomputes::kSelected},
    {"attention", Module::Role::kAttention, Recomputes::kAll},
    {"mlp", Module::Role::kMlp, Recomputes::kAll},
    {"elementwise", Module::Role::kBlock, Recomputes::kBetweenProducts},
};

}  // namespace

absl::StatusOr<ActivationCheckpointing> ParseActivationCheckpointing(absl::string_view name) {
  for (size_t i = 0; i < std::size(kChoices); ++i) {
    if (name == kChoices[i].name) return static_cast<ActivationCheckpointing>(i);
  }
  return InvalidArgument("unknown activation checkpointing '", name,
                         "', expected none, block, selective, attention, mlp or elementwise");
}

void SetActivationCheckpointing(Module& model, ActivationCheckpointing what) {
  const Choice& choice = kChoices[static_cast<size_t>(what)];
  for (Module* module : ModulesOf<Module>(model)) {
    module->set_recomputes(module->role() == choice.role ? choice.recomputes
                                                         : Recomputes::kNothing);
  }
}

}  // namespace zeroth
