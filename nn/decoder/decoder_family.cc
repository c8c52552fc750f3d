// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/decoder/decoder_family.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/config_reader.h"

namespace zeroth {
namespace {

void ReadField(ConfigReader& reader, const ConfigKey& key, DecoderConfig& config) {
  if (!key.required && !reader.Has(key.name)) return;
  if (const auto* size = std::get_if<int64_t DecoderConfig::*>(&key.field)) {
    config.*(*size) = reader.Size(key.name);
  } else if (const auto* number = std::get_if<double DecoderConfig::*>(&key.field)) {
    config.*(*number) = reader.Number(key.name);
  } else {
    config.*std::get<bool DecoderConfig::*>(key.field) = reader.Flag(key.name);
  }
}

// What a user knows a field as.
template <typename Field>
std::string KeyOf(const DecoderFamily& family, Field DecoderConfig::*field) {
  for (const ConfigKey& key : family.keys) {
    const auto* named = std::get_if<Field DecoderConfig::*>(&key.field);
    if (named != nullptr && *named == field) return key.name;
  }
  return "a size that the family fixes";
}

// rope_theta stands at the top level or, in newer files, inside rope_parameters.
absl::Status ReadRope(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!reader.Has(key)) continue;
    const nlohmann::json& rope = json.at(key);
    reader.Require(rope.is_object(), key, "an object");
    if (!rope.is_object()) continue;
    ConfigReader nested(rope);
    const std::string type = nested.Text("rope_type", nested.Text("type", "default"));
    reader.Require(type == "default", key, "rope_type \"default\" (no rope scaling)");
    const bool has_theta = nested.Has("rope_theta");
    if (has_theta) config.rope_theta = nested.Number("rope_theta");
    ZEROTH_RETURN_IF_ERROR(nested.status());
    if (has_theta) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<DecoderConfig> ReadConfig(const DecoderFamily& family, const nlohmann::json& json) {
  ConfigReader reader(json);
  DecoderConfig config = family.base;
  for (const ConfigKey& key : family.keys) ReadField(reader, key, config);
  absl::Status rope;
  if (config.rotary) rope = ReadRope(json, reader, config);
  for (const FixedKey& key : family.fixed) {
    if (key.use == FixedKey::Use::kWrite || !reader.Has(key.name)) continue;
    reader.Require(json.at(key.name) == key.value, key.name, key.value.dump());
  }
  ZEROTH_RETURN_IF_ERROR(reader.status());
  ZEROTH_RETURN_IF_ERROR(rope);
  reader.Require(
      config.head_dim > 0 || config.dim % config.heads == 0, KeyOf(family, &DecoderConfig::heads),
      absl::StrCat("a divisor of ", KeyOf(family, &DecoderConfig::dim), " = ", config.dim));
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0) config.head_dim = config.dim / config.heads;
  reader.Require(
      config.heads % config.kv_heads == 0, KeyOf(family, &DecoderConfig::kv_heads),
      absl::StrCat("a divisor of ", KeyOf(family, &DecoderConfig::heads), " = ", config.heads));
  reader.Require(!config.rotary || config.head_dim % 2 == 0,
                 KeyOf(family, &DecoderConfig::head_dim),
                 "an even number (rotary positions pair elements)");
  ZEROTH_RETURN_IF_ERROR(reader.status());
  return config;
}

nlohmann::json WriteConfig(const DecoderFamily& family, const DecoderConfig& config) {
  nlohmann::json json = {{"model_type", family.model_type}};
  for (const ConfigKey& key : family.keys) {
    std::visit([&](auto field) { json[key.name] = config.*field; }, key.field);
    const auto* size = std::get_if<int64_t DecoderConfig::*>(&key.field);
    // As transformers writes a size that follows from others.
    if (size != nullptr && config.*(*size) == 0) json[key.name] = nullptr;
  }
  for (const FixedKey& key : family.fixed) {
    if (key.use != FixedKey::Use::kRead) json[key.name] = key.value;
  }
  return json;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> BuildDecoder(const DecoderFamily& family,
                                                            const nlohmann::json& json,
                                                            const ModelOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const DecoderConfig config, ReadConfig(family, json));
  return Decoder::Create(config, WriteConfig(family, config), options);
}

DecoderRegistration::DecoderRegistration(DecoderFamily family) {
  std::vector<ModelPreset> presets;
  for (const DecoderPreset& preset : family.presets) {
    DecoderConfig config = family.base;
    config.vocab_size = preset.vocab_size;
    config.max_positions = preset.max_positions;
    config.dim = preset.dim;
    config.layers = preset.layers;
    config.heads = preset.heads;
    config.kv_heads = preset.kv_heads;
    config.mlp_hidden = preset.mlp_hidden;
    config.rope_theta = preset.rope_theta;
    config.norm_eps = preset.norm_eps;
    presets.push_back({preset.name, WriteConfig(family, config)});
  }
  const std::string model_type = family.model_type;
  ModelRegistry::Register(
      model_type,
      [family = std::move(family)](const nlohmann::json& json, const ModelOptions& options) {
        return BuildDecoder(family, json, options);
      },
      std::move(presets));
}

}  // namespace zeroth
