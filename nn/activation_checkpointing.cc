// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/activation_checkpointing.h"

#include "absl/strings/str_cat.h"

namespace zeroth {
namespace {

ActivationCheckpointing RoleOf(const Module& module) {
  switch (module.role()) {
    case Module::Role::kBlock:
      return ActivationCheckpointing::kBlock;
    case Module::Role::kAttention:
      return ActivationCheckpointing::kAttention;
    case Module::Role::kMlp:
      return ActivationCheckpointing::kMlp;
    case Module::Role::kExperts:
    case Module::Role::kNorm:
    case Module::Role::kOther:
      break;
  }
  return ActivationCheckpointing::kNone;
}

}  // namespace

absl::StatusOr<ActivationCheckpointing> ParseActivationCheckpointing(absl::string_view name) {
  if (name == "none") return ActivationCheckpointing::kNone;
  if (name == "block") return ActivationCheckpointing::kBlock;
  if (name == "attention") return ActivationCheckpointing::kAttention;
  if (name == "mlp") return ActivationCheckpointing::kMlp;
  return absl::InvalidArgumentError(absl::StrCat("unknown activation checkpointing '", name,
                                                 "', expected none, block, attention or mlp"));
}

void SetActivationCheckpointing(Module& model, ActivationCheckpointing what) {
  model.set_recomputes(what != ActivationCheckpointing::kNone && RoleOf(model) == what);
  for (Module* child : model.children()) SetActivationCheckpointing(*child, what);
}

}  // namespace zeroth
