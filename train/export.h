// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/nn/language_model.h"

namespace zeroth {

struct ExportOptions {
  // fp32, or bf16, rounded to nearest. Not fp16, which cannot hold every weight: the error would
  // come only at the end of the run.
  DType dtype = DType::kFloat32;
  // `kind` selects the model, or its adapters alone.
  HfDirectoryOptions directory;
  // Contents by name, including generation_config.json, which is written only with models. They are
  // read when a run begins, because the files may have changed when it ends.
  std::map<std::string, std::string> tokenizer_files;
  // Further members of config.json: TokenIds.
  nlohmann::json token_ids = nlohmann::json::object();
  // For adapters alone: the origin of the base model; empty: none.
  std::string base_model;
};

// Returns the files, by name and content, that make a checkpoint of `model` self-describing:
// config.json for weights in `dtype`, the tokenizer files and generation_config.json, and
// adapter_config.json for a model with adapters.
absl::StatusOr<std::map<std::string, std::string>> ModelFiles(const LanguageModel& model,
                                                              DType dtype,
                                                              const ExportOptions& options);

// Checks that ExportModel could begin to write there, so that a run fails before its start and not
// at its end. Leaves nothing behind.
absl::Status CheckExport(const LanguageModel& model, const std::string& directory,
                         const ExportOptions& options);

// Writes the model as a Hugging Face directory (config.json, weights, tokenizer files). LoRA
// adapters are merged into the weights, so that the result is a plain model. With
// HfDirectoryKind::kAdapter, writes only the adapters and the modules that are trained in full
// beside them, in PEFT's format (adapter_config.json, adapter_model.safetensors); InvalidArgument
// for a model without adapters. Collective: rank 0 writes, one gathered unit at a time, and every
// rank returns its error. The directory appears complete or not at all.
absl::Status ExportModel(Trainer& trainer, const std::string& directory,
                         const ExportOptions& options);

}  // namespace zeroth
