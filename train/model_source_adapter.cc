// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The options that an adapter sets when it is trained further, and the names of its tensors.

#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/checkpoint/gguf/gguf_model.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/lora_linear.h"
#include "zeroth/train/model_source.h"

namespace zeroth {
namespace {

// Sets `option` to the adapter's `value`. An option that was set must have that value already.
template <typename T>
absl::Status Adopt(const char* flag, const T& unset, const T& value, T& option) {
  if (option == unset || option == value) {
    option = value;
    return absl::OkStatus();
  }
  const std::string its = absl::StrCat(value);
  return InvalidArgument("--", flag, "=", option, ", but that of --init_adapter is ",
                         its.empty() ? "empty" : its, "; leave the flag out");
}

absl::Status AdoptBase(const std::string& base, TrainOptions& options) {
  if (!options.init_from.empty()) return absl::OkStatus();
  const std::string adapter = absl::StrCat("--init_adapter=", options.init_adapter);
  if (!options.model.empty() || base.empty()) {
    return InvalidArgument(adapter,
                           options.model.empty() ? " does not say which model it was made for"
                                                 : absl::StrCat(" and --model=", options.model,
                                                                ": it belongs to a trained model"),
                           "; give --init_from=DIRECTORY");
  }
  std::error_code error;
  if (!std::filesystem::is_directory(base, error) && !IsGgufPath(base)) {
    return absl::NotFoundError(absl::StrCat(adapter, " was made for ", base,
                                            ", which is not a directory here; give "
                                            "--init_from=DIRECTORY",
                                            HubHint(base)));
  }
  options.init_from = base;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainOptions> WithInitAdapter(TrainOptions options) {
  if (options.init_adapter.empty()) return options;
  const absl::StatusOr<PeftDirectory> opened = PeftDirectory::Open(options.init_adapter);
  ZEROTH_RETURN_IF_ERROR_WITH(opened.status(), "--init_adapter");
  const PeftAdapter& adapter = opened->adapter();
  if (adapter.dora && adapter.dropout > 0) {
    return InvalidArgument(
        "--init_adapter: ", options.init_adapter,
        "/adapter_config.json has \"use_dora\" and \"lora_dropout\": ", adapter.dropout,
        ", but DoRA trains without dropout here; set it to 0 in that file");
  }
  const TrainOptions unset;
  ZEROTH_RETURN_IF_ERROR(Adopt("lora_rank", unset.lora_rank, adapter.rank, options.lora_rank));
  ZEROTH_RETURN_IF_ERROR(Adopt("lora_alpha", unset.lora_alpha, adapter.alpha, options.lora_alpha));
  ZEROTH_RETURN_IF_ERROR(
      Adopt("lora_rslora", unset.lora_rslora, adapter.rslora, options.lora_rslora));
  ZEROTH_RETURN_IF_ERROR(Adopt("lora_dora", unset.lora_dora, adapter.dora, options.lora_dora));
  ZEROTH_RETURN_IF_ERROR(Adopt("lora_modules_to_save", unset.lora_modules_to_save,
                               absl::StrJoin(adapter.modules_to_save, ","),
                               options.lora_modules_to_save));
  // The dropout may differ from the earlier run's.
  if (options.lora_dropout == unset.lora_dropout) options.lora_dropout = adapter.dropout;
  // Different spellings of targets may mean the same layers; OpenInitAdapter compares the layers.
  if (options.lora_targets == unset.lora_targets) {
    options.lora_targets = absl::StrJoin(PeftTargets(adapter), ",");
  }
  ZEROTH_RETURN_IF_ERROR(AdoptBase(adapter.base_model, options));
  return options;
}

std::map<std::string, PeftTensor> PeftLoraTensors(const LanguageModel& model) {
  std::map<std::string, PeftTensor> tensors;
  for (const LoraAdapter& adapter : LoraAdapters(model)) {
    const std::string layer = adapter.layer();
    const bool transposed = adapter.layout == WeightLayout::kInOut;
    for (const auto& [parameter, name] :
         {std::pair(adapter.a, PeftNameOfA(layer)), std::pair(adapter.b, PeftNameOfB(layer))}) {
      const Shape& own = parameter->global_shape();
      tensors[parameter->name()] = {name, transposed ? Shape({own.dim(1), own.dim(0)}) : own,
                                    transposed};
    }
    if (adapter.magnitude == nullptr) continue;
    tensors[adapter.magnitude->name()] = {PeftNameOfMagnitude(layer),
                                          adapter.magnitude->global_shape()};
  }
  return tensors;
}

std::map<std::string, PeftTensor> PeftAdapterTensors(const LanguageModel& model) {
  std::map<std::string, PeftTensor> tensors = PeftLoraTensors(model);
  for (const Parameter* parameter : SavedParameters(model)) {
    tensors[parameter->name()] = {PeftNameOfSaved(parameter->name()), parameter->global_shape()};
  }
  return tensors;
}

}  // namespace zeroth
