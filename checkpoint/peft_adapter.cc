// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/peft_adapter.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

namespace zeroth {
namespace {

bool IsNumber(absl::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
}

// "attn.c_attn" of "transformer.h.0.attn.c_attn": what follows the block's number. PEFT adapts
// every layer whose name ends so; a shorter end, as "c_proj", could mean more layers than these.
std::string Target(absl::string_view layer) {
  const std::vector<absl::string_view> parts = absl::StrSplit(layer, '.');
  const auto number = std::find_if(parts.rbegin(), parts.rend(), IsNumber);
  return number == parts.rend() ? std::string(layer)
                                : absl::StrJoin(number.base(), parts.end(), ".");
}

}  // namespace

absl::StatusOr<HfConfig> PeftAdapterConfig(const PeftAdapter& adapter) {
  if (adapter.rank < 1 || adapter.layers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("an adapter of rank ", adapter.rank, " for ",
                                                   adapter.layers.size(),
                                                   " layers; expected at least one of each"));
  }
  std::set<std::string> targets;
  for (const std::string& layer : adapter.layers) targets.insert(Target(layer));
  nlohmann::json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] =
      adapter.base_model.empty() ? nlohmann::json() : nlohmann::json(adapter.base_model);
  json["r"] = adapter.rank;
  // Whole numbers as such: PEFT's own files have integers.
  const bool whole = adapter.alpha == std::floor(adapter.alpha) && std::abs(adapter.alpha) < 1e9;
  json["lora_alpha"] =
      whole ? nlohmann::json(static_cast<int64_t>(adapter.alpha)) : nlohmann::json(adapter.alpha);
  json["lora_dropout"] = 0.0;
  json["target_modules"] = targets;
  json["fan_in_fan_out"] = adapter.fan_in_fan_out;
  json["bias"] = "none";
  json["modules_to_save"] = nullptr;
  json["use_rslora"] = false;
  json["init_lora_weights"] = true;
  json["inference_mode"] = true;
  return HfConfig::Parse(json.dump(), "adapter_config.json");
}

std::string PeftNameOfA(absl::string_view layer) {
  return absl::StrCat("base_model.model.", layer, ".lora_A.weight");
}

std::string PeftNameOfB(absl::string_view layer) {
  return absl::StrCat("base_model.model.", layer, ".lora_B.weight");
}

}  // namespace zeroth
