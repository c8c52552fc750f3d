// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/peft_adapter.h"

namespace zeroth {

// True if `path` is a sharded checkpoint.
bool IsCheckpoint(const std::string& path);

// The model of a checkpoint in the form of a Hugging Face directory: the carried config.json and
// tokenizer files, and the parameters' values (state "param"). Each block is checked as it is read.
struct CheckpointModel {
  HfDirectory model;
  // The LoRA adapters' configuration, if the model has adapters. Their matrices are the parameters
  // LAYER.lora_A and LAYER.lora_B of `model`. With adapter.fan_in_fan_out A is [in, rank] and B is
  // [rank, out]; otherwise A is [rank, in] and B is [out, rank], as in PEFT.
  std::optional<PeftAdapter> adapter;
};

// FailedPrecondition for a checkpoint that carries no config.json; errors of CheckpointReader.
absl::StatusOr<CheckpointModel> OpenCheckpointModel(const std::string& path);

}  // namespace zeroth
