// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_EXPORT_H_
#define ZEROTH_TRAIN_EXPORT_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

// Turns the parameters of a model with LoRA adapters, one after the other, into those of the plain
// model that computes the same: weight + scale * (A B), which others' tools read. Parameters that
// have no adapter pass through, so that it serves every model. A weight is held back until both of
// its adapter's halves have come, which in a model's order of parameters is within one layer.
class AdapterMerger {
 public:
  using Sink =
      std::function<absl::Status(const Parameter& parameter, absl::Span<const float> values)>;

  // All outlive the merger.
  AdapterMerger(const LanguageModel& model, Device& device, Kernels& kernels);

  // A whole parameter, in any order; `sink` is given what is complete.
  absl::Status Add(const Parameter& parameter, absl::Span<const float> values, const Sink& sink);

  // The parameters that come out: all but the adapters.
  static std::vector<const Parameter*> MergedParameters(const LanguageModel& model);

 private:
  struct Pending {
    LoraAdapter adapter;
    std::map<const Parameter*, std::vector<float>> values;
  };

  absl::Status Merge(Pending& pending, const Sink& sink);

  Device& device_;
  Kernels& kernels_;
  std::vector<Pending> pending_;
  std::map<const Parameter*, size_t> pending_of_;
};

struct ExportOptions {
  // fp32, or bf16: rounded to nearest. Not fp16, which cannot hold every weight: that would show
  // when the run is over.
  DType dtype = DType::kFloat32;
  HfDirectoryOptions directory;
  // Contents by name. They are read when a run begins: what lies where they came from may be
  // another when it ends.
  std::map<std::string, std::string> tokenizer_files;
  // Members of config.json beside the model's own: TokenIds.
  nlohmann::json token_ids = nlohmann::json::object();
  // ExportAdapters: where the model that is adapted came from; empty: nowhere.
  std::string base_model;
};

// The files beside weights, by name and content, that make a checkpoint of `model` self-describing:
// config.json, for weights kept in `dtype`, the tokenizer files, and adapter_config.json for a
// model with adapters.
absl::StatusOr<std::map<std::string, std::string>> ModelFiles(const LanguageModel& model,
                                                              DType dtype,
                                                              const ExportOptions& options);

// Whether ExportModel could begin to write there: what would fail at the end of a run should fail
// before it. Leaves nothing behind.
absl::Status CheckExport(const LanguageModel& model, const std::string& directory,
                         const ExportOptions& options);

// Writes the model as a Hugging Face directory (config.json, weights, tokenizer files): collective;
// rank 0 writes, one gathered unit at a time, and every rank returns its error.
// LoRA adapters are merged into the weights that they adapt, so that what is written is a plain
// model.
// The directory appears whole or not at all.
absl::Status ExportModel(Trainer& trainer, const std::string& directory,
                         const ExportOptions& options);

// The same of the model's LoRA adapters alone, as the library PEFT reads them (adapter_config.json,
// adapter_model.safetensors). InvalidArgument for a model without adapters.
absl::Status CheckExportAdapters(const LanguageModel& model, const std::string& directory,
                                 const ExportOptions& options);
absl::Status ExportAdapters(Trainer& trainer, const std::string& directory,
                            const ExportOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_EXPORT_H_
