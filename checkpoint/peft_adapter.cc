// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/peft_adapter.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/lora.h"

namespace zeroth {
namespace {

constexpr char kPrefix[] = "base_model.model.";
constexpr char kWeight[] = ".weight";

bool IsNumber(absl::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
}

// Returns the name after the block's number: "attn.c_attn" for "transformer.h.0.attn.c_attn". PEFT
// adapts every layer whose name ends like this; a shorter end, as "c_proj", could match more
// layers.
std::string Target(absl::string_view layer) {
  const std::vector<absl::string_view> parts = absl::StrSplit(layer, '.');
  const auto number = std::find_if(parts.rbegin(), parts.rend(), IsNumber);
  return number == parts.rend() ? std::string(layer)
                                : absl::StrJoin(number.base(), parts.end(), ".");
}

absl::Status Unsupported(const HfConfig& config, const std::string& key) {
  return Unimplemented(
      config.where(), ": \"", key, "\" is ", config.json().at(key).dump(-1, ' ', true),
      ", which Zeroth does not know; it reads plain LoRA adapters of one rank and scale");
}

absl::StatusOr<std::vector<std::string>> ModulesToSave(const HfConfig& config) {
  std::vector<std::string> modules;
  const auto list = config.json().find("modules_to_save");
  if (list == config.json().end() || list->is_null()) return modules;
  if (!list->is_array()) return Unsupported(config, "modules_to_save");
  for (const nlohmann::json& module : *list) {
    if (!module.is_string() || module == "") return Unsupported(config, "modules_to_save");
    modules.push_back(module.get<std::string>());
  }
  return modules;
}

}  // namespace

std::vector<float> Transposed(const Shape& shape, absl::Span<const float> values) {
  const auto rows = static_cast<size_t>(shape.dim(0));
  const auto columns = static_cast<size_t>(shape.dim(1));
  std::vector<float> turned(values.size());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      turned[column * rows + row] = values[row * columns + column];
    }
  }
  return turned;
}

double PeftAdapter::scale() const { return LoraScale(alpha, rank, rslora); }

bool PeftAdapter::Saves(absl::string_view parameter) const {
  const absl::string_view module = ModuleNameOf(parameter);
  return std::any_of(modules_to_save.begin(), modules_to_save.end(),
                     [&](const std::string& end) { return absl::EndsWith(module, end); });
}

std::string PeftAdapter::SavedEmbedding() const {
  const auto found = std::find_if(saved.begin(), saved.end(), IsTokenEmbedding);
  return found == saved.end() ? std::string() : *found;
}

absl::Status CheckSavedEmbedding(const PeftAdapter& adapter, bool head_is_tied,
                                 absl::string_view where) {
  const std::string embedding = adapter.SavedEmbedding();
  if (!head_is_tied || adapter.ties_weights || embedding.empty()) return absl::OkStatus();
  return Unimplemented(where, ": \"", embedding,
                       "\" is stored in full, and the head that is tied to it in the base model "
                       "would keep the base's values; train with \"ensure_weight_tying\" in PEFT");
}

absl::StatusOr<HfConfig> PeftAdapterConfig(const PeftAdapter& adapter) {
  if (adapter.rank < 1 || adapter.layers.empty()) {
    return InvalidArgument("an adapter of rank ", adapter.rank, " for ", adapter.layers.size(),
                           " layers; expected at least one of each");
  }
  nlohmann::json json;
  json["peft_type"] = "LORA";
  json["task_type"] = adapter.scores ? "SEQ_CLS" : "CAUSAL_LM";
  json["base_model_name_or_path"] =
      adapter.base_model.empty() ? nlohmann::json() : nlohmann::json(adapter.base_model);
  json["r"] = adapter.rank;
  // PEFT writes a whole lora_alpha as an integer.
  const bool whole = adapter.alpha == std::floor(adapter.alpha) && std::abs(adapter.alpha) < 1e9;
  json["lora_alpha"] =
      whole ? nlohmann::json(static_cast<int64_t>(adapter.alpha)) : nlohmann::json(adapter.alpha);
  json["lora_dropout"] = adapter.dropout;
  json["target_modules"] = PeftTargets(adapter);
  json["fan_in_fan_out"] = adapter.fan_in_fan_out;
  json["bias"] = "none";
  json["modules_to_save"] =
      adapter.modules_to_save.empty() ? nlohmann::json() : nlohmann::json(adapter.modules_to_save);
  // Otherwise PEFT would leave the head as it was in the base.
  if (adapter.ties_weights) json["ensure_weight_tying"] = true;
  json["use_rslora"] = adapter.rslora;
  json["use_dora"] = adapter.dora;
  json["init_lora_weights"] = true;
  json["inference_mode"] = true;
  return HfConfig::Parse(json.dump(), "adapter_config.json");
}

std::vector<std::string> PeftTargets(const PeftAdapter& adapter) {
  std::set<std::string> targets;
  for (const std::string& layer : adapter.layers) targets.insert(Target(layer));
  return {targets.begin(), targets.end()};
}

absl::StatusOr<PeftAdapter> ParsePeftAdapter(const HfConfig& config) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string type, config.GetString("peft_type"));
  if (type != "LORA") return Unsupported(config, "peft_type");
  ZEROTH_ASSIGN_OR_RETURN(const std::string bias, config.GetStringOr("bias", "none"));
  if (bias != "none") return Unsupported(config, "bias");
  // The tensors' names say which layers have an adapter.
  static constexpr absl::string_view kHarmless[] = {
      "auto_mapping",   "corda_config",   "eva_config",          "exclude_modules",
      "inference_mode", "layers_pattern", "layers_to_transform", "loftq_config",
      "lora_ga_config", "megatron_core",  "peft_version",        "qalora_group_size",
      "revision",       "runtime_config", "target_modules",      "task_type"};
  static constexpr absl::string_view kRead[] = {"base_model_name_or_path",
                                                "bias",
                                                "ensure_weight_tying",
                                                "fan_in_fan_out",
                                                "init_lora_weights",
                                                "lora_alpha",
                                                "lora_dropout",
                                                "modules_to_save",
                                                "peft_type",
                                                "r",
                                                "use_dora",
                                                "use_rslora"};
  for (const auto& [key, value] : config.json().items()) {
    const auto is_in = [&key = key](absl::Span<const absl::string_view> keys) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    // Keys that are off change nothing.
    const bool is_off =
        value.is_null() || value == false || (value.is_structured() && value.empty());
    if (!is_off && !is_in(kHarmless) && !is_in(kRead)) return Unsupported(config, key);
  }
  // Other initializations, such as pissa, change the weights of the base when PEFT loads the
  // adapter.
  const auto begin = config.json().find("init_lora_weights");
  if (begin != config.json().end() && begin->is_string() && *begin != "gaussian" &&
      *begin != "eva" && *begin != "orthogonal") {
    return Unsupported(config, "init_lora_weights");
  }
  PeftAdapter adapter;
  ZEROTH_ASSIGN_OR_RETURN(adapter.ties_weights, config.GetBoolOr("ensure_weight_tying", false));
  ZEROTH_ASSIGN_OR_RETURN(adapter.rank, config.GetInt("r"));
  ZEROTH_ASSIGN_OR_RETURN(adapter.alpha, config.GetDouble("lora_alpha"));
  if (adapter.rank < 1 || !std::isfinite(adapter.alpha)) {
    return InvalidArgument(config.where(), ": \"r\" is ", adapter.rank, " and \"lora_alpha\" ",
                           adapter.alpha, ", expected a rank of at least 1");
  }
  ZEROTH_ASSIGN_OR_RETURN(adapter.modules_to_save, ModulesToSave(config));
  ZEROTH_ASSIGN_OR_RETURN(const std::string task, config.GetStringOr("task_type", ""));
  adapter.scores = task == "SEQ_CLS";
  // PEFT adds both names that the head may have, of which the model has one.
  if (adapter.scores) std::erase(adapter.modules_to_save, "classifier");
  ZEROTH_ASSIGN_OR_RETURN(adapter.rslora, config.GetBoolOr("use_rslora", false));
  ZEROTH_ASSIGN_OR_RETURN(adapter.dora, config.GetBoolOr("use_dora", false));
  ZEROTH_ASSIGN_OR_RETURN(adapter.dropout, config.GetDoubleOr("lora_dropout", 0));
  ZEROTH_ASSIGN_OR_RETURN(adapter.fan_in_fan_out, config.GetBoolOr("fan_in_fan_out", false));
  ZEROTH_ASSIGN_OR_RETURN(adapter.base_model, config.GetStringOr("base_model_name_or_path", ""));
  return adapter;
}

std::string PeftNameOfA(absl::string_view layer) {
  return absl::StrCat(kPrefix, layer, kLoraA, kWeight);
}

std::string PeftNameOfB(absl::string_view layer) {
  return absl::StrCat(kPrefix, layer, kLoraB, kWeight);
}

std::string PeftNameOfMagnitude(absl::string_view layer) {
  return absl::StrCat(kPrefix, layer, kLoraMagnitude);
}

std::string PeftNameOfSaved(absl::string_view parameter) {
  return absl::StrCat(kPrefix, parameter);
}

namespace {

constexpr char kConfig[] = "adapter_config.json";
constexpr char kWeights[] = "adapter_model.safetensors";
constexpr char kHead[] = "lm_head.weight";

// A is [rank, in], B is [out, rank].
absl::Status CheckLoraMatrix(const WeightsSource& weights, const std::string& name, int rank_dim,
                             int64_t rank) {
  ZEROTH_ASSIGN_OR_RETURN(const Shape shape, weights.ShapeOf(name));
  if (shape.rank() == 2 && shape.dim(rank_dim) == rank) return absl::OkStatus();
  return InvalidArgument(
      weights.description(), ": tensor \"", name, "\" has shape ", shape.ToString(), ", expected ",
      rank_dim == 0 ? absl::StrCat("[", rank, ", in]") : absl::StrCat("[out, ", rank, "]"));
}

// Sets `layers` and `saved` to those of the tensors.
absl::Status SetNames(const WeightsSource& weights, PeftAdapter& adapter) {
  std::set<std::string> layers;
  for (const std::string& name : weights.names()) {
    absl::string_view layer = name;
    if (adapter.dora && absl::ConsumePrefix(&layer, kPrefix) &&
        absl::ConsumeSuffix(&layer, kLoraMagnitude)) {
      layers.emplace(layer);
      continue;
    }
    layer = name;
    const bool is_half =
        absl::ConsumePrefix(&layer, kPrefix) && absl::ConsumeSuffix(&layer, kWeight) &&
        (absl::ConsumeSuffix(&layer, kLoraA) || absl::ConsumeSuffix(&layer, kLoraB));
    absl::string_view saved = name;
    if (!is_half && absl::ConsumePrefix(&saved, kPrefix)) {
      if (adapter.Saves(saved)) {
        adapter.saved.emplace_back(saved);
        continue;
      }
      // PEFT stores a tied head a second time.
      if (adapter.ties_weights && saved == kHead) continue;
    }
    if (!is_half) {
      return InvalidArgument(weights.description(), ": tensor \"", name,
                             "\" is not a matrix of a linear layer's adapter; expected ",
                             PeftNameOfA("LAYER"), " and ", PeftNameOfB("LAYER"),
                             ", or a parameter of \"modules_to_save\"");
    }
    layers.emplace(layer);
  }
  for (const std::string& layer : layers) {
    ZEROTH_RETURN_IF_ERROR(CheckLoraMatrix(weights, PeftNameOfA(layer), 0, adapter.rank));
    ZEROTH_RETURN_IF_ERROR(CheckLoraMatrix(weights, PeftNameOfB(layer), 1, adapter.rank));
    if (!adapter.dora) continue;
    const std::string name = PeftNameOfMagnitude(layer);
    ZEROTH_ASSIGN_OR_RETURN(const Shape magnitude, weights.ShapeOf(name));
    const int64_t outputs = weights.Find(PeftNameOfB(layer))->shape.dim(0);
    if (magnitude == Shape({outputs})) continue;
    return InvalidArgument(weights.description(), ": tensor \"", name, "\" has shape ",
                           magnitude.ToString(), ", expected [", outputs, "]");
  }
  adapter.layers.assign(layers.begin(), layers.end());
  return absl::OkStatus();
}

}  // namespace

bool IsPeftDirectory(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(path) / kConfig, error) &&
         !std::filesystem::exists(std::filesystem::path(path) / "config.json", error);
}

absl::StatusOr<PeftDirectory> PeftDirectory::Open(const std::string& path) {
  const std::filesystem::path base(path);
  ZEROTH_ASSIGN_OR_RETURN(const HfConfig config, HfConfig::Load((base / kConfig).string()));
  ZEROTH_ASSIGN_OR_RETURN(PeftAdapter adapter, ParsePeftAdapter(config));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const WeightsSource> weights,
                          SafetensorsFile::Open((base / kWeights).string()));
  ZEROTH_RETURN_IF_ERROR(SetNames(*weights, adapter));
  return PeftDirectory(std::move(adapter), std::move(weights));
}

}  // namespace zeroth
