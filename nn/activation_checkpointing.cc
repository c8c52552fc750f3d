// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/activation_checkpointing.h"

#include "absl/strings/str_cat.h"

namespace zeroth {
namespace {

Module::Recomputes Recomputed(Module::Role role, ActivationCheckpointing what) {
  using Recomputes = Module::Recomputes;
  switch (what) {
    case ActivationCheckpointing::kNone:
      break;
    case ActivationCheckpointing::kBlock:
      return role == Module::Role::kBlock ? Recomputes::kAll : Recomputes::kNothing;
    case ActivationCheckpointing::kSelective:
      return role == Module::Role::kBlock ? Recomputes::kRest : Recomputes::kNothing;
    case ActivationCheckpointing::kAttention:
      return role == Module::Role::kAttention ? Recomputes::kAll : Recomputes::kNothing;
    case ActivationCheckpointing::kMlp:
      return role == Module::Role::kMlp ? Recomputes::kAll : Recomputes::kNothing;
  }
  return Recomputes::kNothing;
}

}  // namespace

absl::StatusOr<ActivationCheckpointing> ParseActivationCheckpointing(absl::string_view name) {
  if (name == "none") return ActivationCheckpointing::kNone;
  if (name == "block") return ActivationCheckpointing::kBlock;
  if (name == "selective") return ActivationCheckpointing::kSelective;
  if (name == "attention") return ActivationCheckpointing::kAttention;
  if (name == "mlp") return ActivationCheckpointing::kMlp;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown activation checkpointing '", name,
                   "', expected none, block, selective, attention or mlp"));
}

void SetActivationCheckpointing(Module& model, ActivationCheckpointing what) {
  model.set_recomputes(Recomputed(model.role(), what));
  for (Module* child : model.children()) SetActivationCheckpointing(*child, what);
}

}  // namespace zeroth
