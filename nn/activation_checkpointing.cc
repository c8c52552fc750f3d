// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/activation_checkpointing.h"

#include <cstddef>

namespace zeroth {
namespace {

// The recomputation of modules of one role, for one value of ActivationCheckpointing.
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
    {Module::Role::kBlock, Recomputes::kBetweenMatmuls},
};

// Sets what `module` and its descendants recompute. A module with the chosen role that is nested in
// another one (a mixture's shared expert, in the MLP) is recomputed with the outer module.
void Set(Module& module, const Choice& choice, bool is_inside) {
  const bool is_chosen = !is_inside && module.role() == choice.role;
  module.set_recomputes(is_chosen ? choice.recomputes : Recomputes::kNothing);
  for (Module* child : module.children()) Set(*child, choice, is_inside || is_chosen);
}

}  // namespace

void SetActivationCheckpointing(Module& model, ActivationCheckpointing what) {
  Set(model, kChoices[static_cast<size_t>(what)], /*is_inside=*/false);
}

}  // namespace zeroth
