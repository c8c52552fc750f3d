// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/model/open_model.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_model.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/sharded/checkpoint_model.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {
namespace {

// True if the layer is a Conv1D of transformers, whose weight is [in, out]. PEFT decides by this
// class, whatever the adapter's "fan_in_fan_out" says.
bool IsConv1D(const HfConfig& config, absl::string_view layer) {
  const auto type = config.json().find("model_type");
  return type != config.json().end() && *type == "gpt2" && absl::StrContains(layer, ".c_");
}

// Returns the delta of a layer's adapter matrices of these names. `in_out`: the weight is [in,
// out].
LoraDelta DeltaOf(bool in_out, std::string weight, std::string a, std::string b) {
  LoraDelta delta;
  delta.weight = std::move(weight);
  delta.left = std::move(b);
  delta.right = std::move(a);
  if (in_out) std::swap(delta.left, delta.right);
  delta.outputs_are_columns = in_out;
  return delta;
}

absl::StatusOr<HfDirectory> OpenCheckpoint(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(CheckpointModel checkpoint, OpenCheckpointModel(path));
  if (!checkpoint.adapter.has_value()) return std::move(checkpoint.model);
  for (const std::string& name : checkpoint.model.weights().names()) {
    if (!FormatOfCodes(name).has_value()) continue;
    return Unimplemented(path,
                         ": its frozen weights are packed (--base_dtype), and are restored only "
                         "when a run ends; use the run's final/, resume it with --steps of the "
                         "checkpoint, or use the adapter alone (--lora_export=adapter)");
  }
  std::vector<LoraDelta> deltas;
  for (const std::string& layer : checkpoint.adapter->layers) {
    deltas.push_back(DeltaOf(checkpoint.adapter->fan_in_fan_out, absl::StrCat(layer, ".weight"),
                             absl::StrCat(layer, kLoraA), absl::StrCat(layer, kLoraB)));
    if (checkpoint.adapter->dora) deltas.back().magnitude = absl::StrCat(layer, kLoraMagnitude);
  }
  const std::shared_ptr<const WeightsSource>& weights = checkpoint.model.shared_weights();
  ZEROTH_ASSIGN_OR_RETURN(
      std::shared_ptr<const WeightsSource> merged,
      MergedWeights::Create(weights, weights, deltas, checkpoint.adapter->scale()));
  return HfDirectory(path, checkpoint.model.config(), std::move(merged));
}

absl::StatusOr<HfDirectory> OpenGguf(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(HfDirectory model, OpenGgufModel(path));
  const auto& weights = dynamic_cast<const GgufWeights&>(model.weights());
  ZEROTH_RETURN_IF_ERROR(SetGgufTokenizer(weights.metadata(), &model));
  return model;
}

absl::StatusOr<HfDirectory> OpenAdapted(const std::string& path, std::string base_path) {
  ZEROTH_ASSIGN_OR_RETURN(const PeftDirectory adapter, PeftDirectory::Open(path));
  const bool is_named = !base_path.empty();
  if (!is_named) base_path = adapter.adapter().base_model;
  if (base_path.empty()) {
    return InvalidArgument(path,
                           ": the adapter does not name its base model; give --base=DIRECTORY");
  }
  const absl::StatusOr<HfDirectory> base = OpenModelFiles(base_path);
  if (!base.ok()) {
    return Annotate(base.status(),
                    is_named ? std::string("--base")
                             : absl::StrCat(path,
                                            " was made for this model; give --base=DIRECTORY "
                                            "if it is elsewhere"));
  }
  std::vector<LoraDelta> deltas;
  for (const std::string& layer : adapter.adapter().layers) {
    const bool in_out = IsConv1D(base->config(), layer);
    deltas.push_back(DeltaOf(in_out, base->weights().StoredName(layer + ".weight"),
                             PeftNameOfA(layer), PeftNameOfB(layer)));
    deltas.back().transposed = in_out;
    if (adapter.adapter().dora) deltas.back().magnitude = PeftNameOfMagnitude(layer);
  }
  std::map<std::string, std::string, std::less<>> replaced;
  for (const std::string& parameter : adapter.adapter().saved) {
    replaced[base->weights().StoredName(parameter)] = PeftNameOfSaved(parameter);
  }
  constexpr char kHead[] = "lm_head.weight";
  const bool has_head = base->weights().Find(kHead) != nullptr;
  ZEROTH_RETURN_IF_ERROR(CheckSavedEmbedding(adapter.adapter(), !has_head, path));
  // The base's files may hold a second copy of a tied head.
  const std::string embedding = adapter.adapter().SavedEmbedding();
  if (has_head && adapter.adapter().ties_weights && !embedding.empty()) {
    replaced[kHead] = PeftNameOfSaved(embedding);
  }
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const WeightsSource> merged,
                          MergedWeights::Create(base->shared_weights(), adapter.weights(), deltas,
                                                adapter.adapter().scale(), std::move(replaced)));
  HfDirectory model(base->path(), base->config(), std::move(merged));
  // The adapter may have been trained with another chat template, or more tokens, than the base.
  ZEROTH_RETURN_IF_ERROR(model.UseTokenizerOf(path));
  const auto* const gguf = dynamic_cast<const GgufWeights*>(&base->weights());
  if (gguf != nullptr && model.tokenizer_path() != path) {
    ZEROTH_RETURN_IF_ERROR(SetGgufTokenizer(gguf->metadata(), &model));
  }
  return model;
}

}  // namespace

absl::StatusOr<HfDirectory> OpenModel(const std::string& path, const std::string& base) {
  if (IsPeftDirectory(path)) return OpenAdapted(path, base);
  if (!base.empty()) {
    return InvalidArgument("--base=", base, " is for an adapter, and ", path,
                           " has no adapter_config.json");
  }
  if (IsGgufPath(path)) return OpenGguf(path);
  return IsCheckpoint(path) ? OpenCheckpoint(path) : HfDirectory::Open(path);
}

}  // namespace zeroth
