// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_MODEL_H_
#define ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_MODEL_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/peft_adapter.h"

namespace zeroth {

// Whether `path` is a sharded checkpoint.
bool IsCheckpoint(const std::string& path);

// The model in a checkpoint, as if it lay in a Hugging Face directory: the config.json and the
// tokenizer files that the checkpoint carries, and the parameters' values (state "param"), each
// block checked as it is read.
struct CheckpointModel {
  HfDirectory model;
  // Where the model has LoRA adapters: what is carried about them. Their halves are parameters of
  // `model`, LAYER.lora_A and LAYER.lora_B: where adapter.fan_in_fan_out, A is [in, rank] and B is
  // [rank, out], otherwise as PEFT has them.
  std::optional<PeftAdapter> adapter;
};

// FailedPrecondition for a checkpoint that carries no config.json; errors of CheckpointReader.
absl::StatusOr<CheckpointModel> OpenCheckpointModel(const std::string& path);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_SHARDED_CHECKPOINT_MODEL_H_
