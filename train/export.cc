// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/export.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/hf_experts.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/train/model_source.h"

namespace zeroth {
namespace {

// Merges the LoRA adapters of a model into its weights, one parameter at a time: weight + scale *
// (A B), scaled to the magnitudes if it has any. The result is a plain model, which other tools can
// read. Parameters without adapters pass through. A weight is held back until all of its adapter
// has arrived; in a model's order of parameters that is within one layer.
class AdapterMerger {
 public:
  using Sink =
      std::function<absl::Status(const Parameter& parameter, absl::Span<const float> values)>;

  // The model outlives the merger. `sink` gets each parameter that is complete.
  AdapterMerger(const LanguageModel& model, Sink sink) : sink_(std::move(sink)) {
    for (const LoraAdapter& adapter : LoraAdapters(model)) {
      for (const Parameter* parameter : {adapter.weight, adapter.a, adapter.b, adapter.magnitude}) {
        if (parameter != nullptr) pending_of_[parameter] = pending_.size();
      }
      pending_.push_back({adapter, {}});
    }
  }

  // Adds a full parameter, in any order.
  absl::Status Add(const Parameter& parameter, absl::Span<const float> values) {
    const auto found = pending_of_.find(&parameter);
    if (found == pending_of_.end()) return sink_(parameter, values);
    Pending& pending = pending_[found->second];
    pending.values[&parameter].assign(values.begin(), values.end());
    const size_t parts = pending.adapter.magnitude == nullptr ? 3 : 4;
    return pending.values.size() == parts ? Merge(pending) : absl::OkStatus();
  }

 private:
  struct Pending {
    LoraAdapter adapter;
    std::map<const Parameter*, std::vector<float>> values;
  };

  absl::Status Merge(Pending& pending) {
    auto values = std::exchange(pending.values, {});
    const LoraAdapter& adapter = pending.adapter;
    const bool is_in_out = adapter.layout == WeightLayout::kInOut;
    LoraMatrices matrices;
    matrices.left = std::move(values[is_in_out ? adapter.a : adapter.b]);
    matrices.right = std::move(values[is_in_out ? adapter.b : adapter.a]);
    matrices.rank = adapter.a->global_shape().dim(is_in_out ? 1 : 0);
    matrices.columns = adapter.weight->global_shape().dim(1);
    std::vector<float>& weight = values[adapter.weight];
    if (adapter.magnitude != nullptr) {
      ZEROTH_RETURN_IF_ERROR(
          matrices.SetFactors(adapter.options->scale(), values[adapter.magnitude], is_in_out,
                              [&weight](int64_t begin, absl::Span<float> block) {
                                std::copy_n(weight.begin() + begin, block.size(), block.begin());
                                return absl::OkStatus();
                              }));
    }
    matrices.AddTo(adapter.options->scale(), 0, absl::MakeSpan(weight));
    return sink_(*adapter.weight, weight);
  }

  const Sink sink_;
  std::vector<Pending> pending_;
  std::map<const Parameter*, size_t> pending_of_;
};

// Restores the packed weights of a model in fp32. Other parameters pass through.
class Unpacker {
 public:
  using Sink =
      std::function<absl::Status(const Parameter& parameter, absl::Span<const float> values)>;

  // The model outlives the object. `sink` gets the unpacked weights.
  Unpacker(const LanguageModel& model, Sink sink) : sink_(std::move(sink)) {
    for (const PackedWeight* packed : PackedWeights(model)) {
      packed_of_[packed->codes] = packed;
      if (packed->scales != nullptr) packed_of_[packed->scales] = packed;
    }
  }

  // Adds a full parameter, in the model's order: the codes of a weight, then its scales if any.
  absl::Status Add(const Parameter& parameter, absl::Span<const float> values) {
    const auto found = packed_of_.find(&parameter);
    if (found == packed_of_.end()) return sink_(parameter, values);
    const PackedWeight& packed = *found->second;
    std::vector<uint8_t> scales;
    if (&parameter == packed.codes) {
      codes_.assign(values.begin(), values.end());
      if (packed.scales != nullptr) return absl::OkStatus();
    } else {
      scales.assign(values.begin(), values.end());
    }
    const std::vector<uint8_t> codes = std::exchange(codes_, {});
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> weight,
                            UnpackMatrix(packed.shape, codes, scales));
    return sink_(*packed.weight, weight);
  }

 private:
  const Sink sink_;
  std::map<const Parameter*, const PackedWeight*> packed_of_;
  std::vector<uint8_t> codes_;
};

using Writer = std::unique_ptr<HfDirectoryWriter>;

absl::StatusOr<HfConfig> ModelConfig(const LanguageModel& model, DType dtype,
                                     const ExportOptions& options) {
  nlohmann::json json = model.HfConfig();
  json.update(options.token_ids);
  ZEROTH_ASSIGN_OR_RETURN(const HfConfig config, HfConfig::Parse(json.dump(), "the model"));
  return WithDType(config, dtype);
}

absl::StatusOr<HfConfig> AdapterConfig(const LanguageModel& model, const ExportOptions& options) {
  PeftAdapter adapter;
  adapter.base_model = options.base_model;
  for (const LoraAdapter& part : LoraAdapters(model)) {
    adapter.fan_in_fan_out = part.layout == WeightLayout::kInOut;
    adapter.rank = part.options->rank;
    adapter.alpha = part.options->alpha;
    adapter.rslora = part.options->rslora;
    adapter.dora = part.options->dora;
    adapter.dropout = part.options->dropout;
    adapter.modules_to_save = part.options->modules_to_save;
    adapter.layers.push_back(part.layer());
  }
  const Parameter& head = model.head_weight();
  adapter.scores = model.scores();
  adapter.ties_weights = head.requires_grad() && !model.scores() && head.name() != "lm_head.weight";
  return PeftAdapterConfig(adapter);
}

bool IsOfAdapters(const ExportOptions& options) {
  return options.directory.kind == HfDirectoryKind::kAdapter;
}

absl::StatusOr<Writer> StartWriting(const LanguageModel& model, const std::string& directory,
                                    const ExportOptions& options) {
  HfDirectoryOptions directory_options = options.directory;
  if (IsOfAdapters(options)) {
    directory_options.max_shard_bytes = 0;  // PEFT reads a single file.
    ZEROTH_ASSIGN_OR_RETURN(const HfConfig base, ModelConfig(model, options.dtype, options));
    std::vector<std::string> layers;
    for (const LoraAdapter& adapter : LoraAdapters(model)) layers.push_back(adapter.layer());
    ZEROTH_RETURN_IF_ERROR(CheckAdapterLayers(base, layers));
  }
  const std::map<std::string, PeftTensor> of_adapters =
      IsOfAdapters(options) ? PeftAdapterTensors(model) : PeftLoraTensors(model);
  std::vector<TensorDeclaration> tensors;
  for (const Parameter* parameter : StoredParameters(model)) {
    const auto tensor = of_adapters.find(parameter->name());
    if (!IsOfAdapters(options) && tensor == of_adapters.end()) {
      tensors.push_back({parameter->name(),
                         StaysFp32(parameter->name()) ? DType::kFloat32 : options.dtype,
                         parameter->global_shape()});
    } else if (IsOfAdapters(options) && tensor != of_adapters.end()) {
      tensors.push_back({tensor->second.name, options.dtype, tensor->second.shape});
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(const HfConfig config, IsOfAdapters(options)
                                                     ? AdapterConfig(model, options)
                                                     : ModelConfig(model, options.dtype, options));
  ZEROTH_ASSIGN_OR_RETURN(
      Writer writer,
      HfDirectoryWriter::Create(directory, config, std::move(tensors), directory_options));
  for (const auto& [name, content] : options.tokenizer_files) {
    if (IsOfAdapters(options) && name == kGenerationConfig) continue;
    ZEROTH_RETURN_IF_ERROR(writer->WriteTokenizerFile(name, content));
  }
  return writer;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ModelFiles(const LanguageModel& model,
                                                              DType dtype,
                                                              const ExportOptions& options) {
  std::map<std::string, std::string> files = options.tokenizer_files;
  ZEROTH_ASSIGN_OR_RETURN(const HfConfig config, ModelConfig(model, dtype, options));
  files["config.json"] = config.ToString();
  if (!LoraAdapters(model).empty()) {
    ZEROTH_ASSIGN_OR_RETURN(const HfConfig adapters, AdapterConfig(model, options));
    files["adapter_config.json"] = adapters.ToString();
  }
  return files;
}

absl::Status CheckExport(const LanguageModel& model, const std::string& directory,
                         const ExportOptions& options) {
  return StartWriting(model, directory, options).status();
}

absl::Status ExportModel(Trainer& trainer, const std::string& directory,
                         const ExportOptions& options) {
  const bool writes = trainer.world().rank() == 0;
  absl::StatusOr<Writer> writer = nullptr;
  if (writes) writer = StartWriting(trainer.model(), directory, options);
  const std::map<std::string, PeftTensor> of_adapters = PeftAdapterTensors(trainer.model());
  AdapterMerger merger(trainer.model(),
                       [&](const Parameter& parameter, absl::Span<const float> values) {
                         return (*writer)->Write(parameter.name(), 0, values);
                       });
  Unpacker unpacker(trainer.model(),
                    [&](const Parameter& parameter, absl::Span<const float> values) {
                      return merger.Add(parameter, values);
                    });
  const auto write = [&](const Parameter& parameter, absl::Span<const float> values) {
    if (!IsOfAdapters(options)) return unpacker.Add(parameter, values);
    const auto tensor = of_adapters.find(parameter.name());
    if (tensor == of_adapters.end()) return absl::OkStatus();
    if (!tensor->second.transposed) return (*writer)->Write(tensor->second.name, 0, values);
    return (*writer)->Write(tensor->second.name, 0, Transposed(parameter.global_shape(), values));
  };
  // After an error of rank 0 all ranks still gather to the end, so that the communication stays
  // intact.
  absl::Status written = writer.status();
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().VisitFull(
      [&](const Parameter& parameter, int64_t, absl::Span<const float> values) {
        if (writes && written.ok()) written = write(parameter, values);
        return absl::OkStatus();
      }));
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  if (writes && written.ok()) written = (*writer)->Finish();
  // No rank reports success before the files are complete.
  return AgreeOnStatus(trainer.world(), trainer.device(), written, "export");
}

}  // namespace zeroth
