// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_EXPORT_H_
#define ZEROTH_TRAIN_EXPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/train/trainer.h"

namespace zeroth {

// Whether ExportModel could begin to write there: what would fail at the end of a run should fail
// before it. Leaves nothing behind.
absl::Status CheckExport(const LanguageModel& model, const std::string& directory,
                         const std::vector<std::string>& tokenizer_files);

// Writes the model as a Hugging Face directory (config.json, model.safetensors in fp32, tokenizer
// files): collective; rank 0 writes, one gathered unit at a time, and every rank returns its error.
// LoRA adapters are merged into the weights that they adapt, so that what is written is a plain
// model.
// The directory appears whole or not at all.
absl::Status ExportModel(Trainer& trainer, const std::string& directory,
                         const std::vector<std::string>& tokenizer_files);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_EXPORT_H_
