// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/activation_checkpointing.h"

#include <cstddef>

namespace zeroth {
namespace {

// What the modules of one role recompute, for one value of ActivationCheckpointing.
struct Choice {
  Module::Role role;
  Recomputes recomputes;
};

// Indexed by ActivationCheckpointing.
constexpr Choice kChoices[] = {
    {Module::Role::kOther, Recomputes::kNothing},
    {Module::Role::kBlock, Recomputes::kAll},
    {Module::Role::kBlock, Recomputes::kSelected},
    {Module::Role::kAttention, Recomputes::kAll},
    {Module::Role::kMlp, Recomputes::kAll},
    {Module::Role::kBlock, Recomputes::kBetweenProducts},
};

}  // namespace

void SetActivationCheckpointing(Module& model, ActivationCheckpointing what) {
  const Choice& choice = kChoices[static_cast<size_t>(what)];
  for (Module* module : ModulesOf<Module>(model)) {
    module->set_recomputes(module->role() == choice.role ? choice.recomputes
                                                         : Recomputes::kNothing);
  }
}

}  // namespace zeroth
