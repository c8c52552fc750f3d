// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/decoder/decoder_family.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/config_reader.h"
#include "zeroth/nn/decoder/harmless_keys.h"
#include "zeroth/nn/decoder/rope_config.h"

namespace zeroth {
namespace {

constexpr char kLayerTypes[] = "layer_types";

void Read(ConfigReader& reader, const std::string& key, int64_t& to) { to = reader.Size(key); }
void Read(ConfigReader& reader, const std::string& key, double& to) { to = reader.Number(key); }
void Read(ConfigReader& reader, const std::string& key, bool& to) { to = reader.Flag(key); }
void Read(ConfigReader& reader, const std::string& key, std::vector<int64_t>& to) {
  to = reader.Indices(key);
}

// Returns the key of config.json that sets a field, for messages.
template <typename Field>
std::string KeyOf(const DecoderFamily& family, Field DecoderConfig::*field) {
  for (const ConfigKey& key : family.keys) {
    const auto* named = std::get_if<Field DecoderConfig::*>(&key.field);
    if (named != nullptr && *named == field) return key.name;
  }
  return "a size that the family fixes";
}

// Refuses keys of config.json that the family does not read and that are not known to be harmless.
// Such a key may change what the model computes.
absl::Status CheckKeys(const DecoderFamily& family, const nlohmann::json& json) {
  nlohmann::json other = json;
  for (const FixedKey& key : family.fixed) {
    if (key.use == FixedKey::Use::kUnused) other.erase(key.name);
  }
  ZEROTH_RETURN_IF_ERROR(CheckKeysOfOtherModels(other));
  const auto has = [](const auto& keys, const std::string& name) {
    return std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  };
  for (const auto& [name, value] : json.items()) {
    if (value.is_null() || IsIgnoredConfigKey(name) || has(family.keys, name) ||
        has(family.fixed, name) || (family.base.rotary && IsRopeKey(name)) || name == kLayerTypes ||
        (family.base.mixes_windows && !family.base.one_rope && name == kLocalRopeTheta)) {
      continue;
    }
    // A flag that is off changes nothing, whatever it is.
    if (value == false) continue;
    return InvalidArgument(
        "model configuration: '", name, "' is unknown for model_type \"", family.model_type,
        "\" and may change what the model computes; if it does not, remove it from config.json");
  }
  return absl::OkStatus();
}

const char* KindOfOthers(const DecoderConfig& config) {
  return config.mixes_linear ? kLinearAttention : kSlidingAttention;
}

// Sets full_layers, in a family that has windows, or linear attention, in some layers only.
void ReadFullLayers(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config) {
  const nlohmann::json* const types = reader.Has(kLayerTypes) ? &json.at(kLayerTypes) : nullptr;
  bool right = types == nullptr ||
               (types->is_array() && static_cast<int64_t>(types->size()) == config.layers);
  for (int64_t layer = 0; right && layer < config.layers; ++layer) {
    bool is_full = (layer + 1) % config.window_pattern == 0;
    if (types != nullptr) {
      const nlohmann::json& type = (*types)[static_cast<size_t>(layer)];
      is_full = type == kFullAttention;
      right = is_full || type == KindOfOthers(config);
    }
    if (is_full) config.full_layers.push_back(layer);
  }
  reader.Require(right, kLayerTypes,
                 absl::StrCat("full_attention or ", KindOfOthers(config), " for each layer"));
}

// Whether "layer_types" has this kind of attention for each layer.
bool AllLayersAre(const nlohmann::json& json, const DecoderConfig& config, const char* kind) {
  const auto types = json.find(kLayerTypes);
  return types != json.end() && types->is_array() &&
         static_cast<int64_t>(types->size()) == config.layers &&
         std::all_of(types->begin(), types->end(), [&](const auto& each) { return each == kind; });
}

// Whether a layer has the window of `key`, by the rules of FixedKey::Use::kNoWindow.
bool HasWindowedLayer(const nlohmann::json& json, const std::string& key,
                      const DecoderConfig& config, ConfigReader& reader) {
  if (reader.IsNull(key) || AllLayersAre(json, config, kFullAttention)) return false;
  constexpr char kFirst[] = "max_window_layers";
  return reader.Has(kLayerTypes) || config.layers > (reader.Has(kFirst) ? reader.Size(kFirst) : 62);
}

// Reads the kind of attention of each layer.
void ReadLayerTypes(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config) {
  if (config.mixes_windows || config.mixes_linear) return ReadFullLayers(json, reader, config);
  if (!reader.Has(kLayerTypes)) return;
  if (AllLayersAre(json, config, kFullAttention)) {
    config.window = 0;
    return;
  }
  reader.Require(config.window > 0 && AllLayersAre(json, config, kSlidingAttention), kLayerTypes,
                 "full_attention for each layer, or sliding_attention for each and a window: "
                 "windows in some layers only are not supported");
}

absl::StatusOr<DecoderConfig> ReadConfig(const DecoderFamily& family, const nlohmann::json& json) {
  ZEROTH_RETURN_IF_ERROR(CheckKeys(family, json));
  ConfigReader reader(json);
  DecoderConfig config = family.base;
  for (const ConfigKey& key : family.keys) {
    const auto* size = std::get_if<int64_t DecoderConfig::*>(&key.field);
    const auto* number = std::get_if<double DecoderConfig::*>(&key.field);
    const bool is_zero = key.null_is_zero && reader.IsNull(key.name);
    if (size != nullptr && is_zero) config.*(*size) = 0;
    if (number != nullptr && is_zero) config.*(*number) = 0;
    if (!key.required && !reader.Has(key.name)) continue;
    if (size != nullptr && key.may_be_zero && reader.Has(key.name) && json.at(key.name) == 0) {
      config.*(*size) = 0;
      continue;
    }
    std::visit([&](auto field) { Read(reader, key.name, config.*field); }, key.field);
  }
  for (const FixedKey& key : family.fixed) {
    if (key.use == FixedKey::Use::kNoWindow) {
      reader.Require(!HasWindowedLayer(json, key.name, config, reader), key.name,
                     "null, or layer_types of full_attention alone: layers from max_window_layers "
                     "on would have a window, which is not supported");
    }
    const bool checks = key.use == FixedKey::Use::kBoth || key.use == FixedKey::Use::kRead;
    if (!checks || !reader.Has(key.name)) continue;
    reader.Require(json.at(key.name) == key.value, key.name, key.value.dump());
  }
  if (HasScoringHead(json)) {
    if (!family.classifier.has_value()) {
      return Unimplemented("model_type '", family.model_type,
                           "': transformers has no model of this family whose head scores texts, "
                           "so nothing could load a reward model of it; expected another family "
                           "for --objective=reward");
    }
    config.scores = true;
    const auto labels = json.find("id2label");
    const bool lists = labels != json.end() && labels->is_object();
    const char* const key = lists ? "id2label" : "num_labels";
    const bool is_one = lists ? labels->size() == 1 : json.contains(key) && json.at(key) == 1;
    reader.Require(is_one, key, "one label: a classifier of several is not supported");
  }
  ReadLayerTypes(json, reader, config);
  ZEROTH_RETURN_IF_ERROR(reader.status());
  if (config.mixes_windows && !config.one_rope) {
    ZEROTH_ASSIGN_OR_RETURN(
        config.rope, ReadRopeOfLayers(json, kFullAttention, config.rope, config.max_positions));
    ZEROTH_ASSIGN_OR_RETURN(
        config.local_rope,
        ReadRopeOfLayers(json, kSlidingAttention, config.local_rope, config.max_positions));
    for (const RopeSpec* rope : {&config.rope, &config.local_rope}) {
      reader.Require(rope->type != RopeSpec::Type::kLongrope, "rope_parameters",
                     "another rope_type than longrope in a model that mixes windows");
    }
  } else if (config.rotary) {
    ZEROTH_ASSIGN_OR_RETURN(config.rope,
                            ReadRope(json, config.rope, config.max_positions, config.rope_keys));
  }
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
  for (const RopeSpec* rope : {&config.rope, &config.local_rope}) {
    if (config.rotary && reader.status().ok()) {
      ZEROTH_RETURN_IF_ERROR(CheckRope(*rope, config.head_dim));
    }
  }
  if (config.mixes_linear && reader.status().ok()) {
    reader.Require(config.linear_value_heads % config.linear_key_heads == 0,
                   KeyOf(family, &DecoderConfig::linear_key_heads),
                   absl::StrCat("a divisor of ", KeyOf(family, &DecoderConfig::linear_value_heads),
                                " = ", config.linear_value_heads));
    reader.Require(config.linear_key_dim <= kMostKeyDim,
                   KeyOf(family, &DecoderConfig::linear_key_dim),
                   absl::StrCat("at most ", kMostKeyDim));
    reader.Require(config.linear_taps <= kMostTaps, KeyOf(family, &DecoderConfig::linear_taps),
                   absl::StrCat("at most ", kMostTaps));
  }
  reader.Require(
      config.experts_per_token <= config.experts, KeyOf(family, &DecoderConfig::experts_per_token),
      absl::StrCat("at most ", KeyOf(family, &DecoderConfig::experts), " = ", config.experts));
  ZEROTH_RETURN_IF_ERROR(reader.status());
  return config;
}

// `came` is the config.json that the model was built from.
nlohmann::json WriteConfig(const DecoderFamily& family, const DecoderConfig& config,
                           const nlohmann::json& came) {
  nlohmann::json json = {{"model_type", family.model_type}};
  for (const ConfigKey& key : family.keys) {
    std::visit([&](auto field) { json[key.name] = config.*field; }, key.field);
    const auto* size = std::get_if<int64_t DecoderConfig::*>(&key.field);
    // transformers writes null for a size that follows from others.
    if (size != nullptr && config.*(*size) == 0 && !key.may_be_zero) json[key.name] = nullptr;
    const auto* number = std::get_if<double DecoderConfig::*>(&key.field);
    if (number != nullptr && key.null_is_zero && config.*(*number) == 0) json[key.name] = nullptr;
  }
  for (const FixedKey& key : family.fixed) {
    const bool writes = key.use != FixedKey::Use::kRead && key.use != FixedKey::Use::kUnused;
    if (writes) json[key.name] = key.value;
  }
  if (config.scores) {
    const auto name = json.at("architectures").at(0).get<std::string>();
    absl::string_view prefix = absl::StripSuffix(name, "ForCausalLM");
    prefix = absl::StripSuffix(prefix, "LMHeadModel");
    // ReadConfig refuses a family without a classifier.
    const std::string classifier = family.classifier.value_or("");
    json["architectures"] = {classifier.empty() ? absl::StrCat(prefix, "ForSequenceClassification")
                                                : classifier};
    json["id2label"] = {{"0", "LABEL_0"}};
    json["label2id"] = {{"LABEL_0", 0}};
  }
  if (config.rotary) CopyRope(came, config.rope, json);
  const bool mixes = config.mixes_windows || config.mixes_linear;
  for (int64_t layer = 0; mixes && layer < config.layers; ++layer) {
    const bool is_full = !config.IsLocal(layer) && !config.IsLinear(layer);
    json[kLayerTypes].push_back(is_full ? kFullAttention : KindOfOthers(config));
  }
  return json;
}

}  // namespace

DecoderFamily LlamaLikeFamily(const std::string& model_type, const std::string& architecture) {
  using Use = FixedKey::Use;
  DecoderFamily family;
  family.model_type = model_type;
  DecoderConfig& base = family.base;
  base.names = {.embedding = "model.embed_tokens",
                .blocks = "model.layers",
                .norm = "model.norm",
                .attention_norm = "input_layernorm",
                .attention = "self_attn",
                .mlp_norm = "post_attention_layernorm",
                .mlp = "mlp",
                .qkv = {"q_proj", "k_proj", "v_proj"},
                .attention_out = "o_proj",
                .mlp_in = {"gate_proj", "up_proj"},
                .mlp_out = "down_proj"};
  base.max_positions = 2048;
  base.norm_eps = 1e-6;
  family.keys = {{"vocab_size", &DecoderConfig::vocab_size, /*required=*/true},
                 {"max_position_embeddings", &DecoderConfig::max_positions},
                 {"hidden_size", &DecoderConfig::dim, /*required=*/true},
                 {"intermediate_size", &DecoderConfig::mlp_hidden, /*required=*/true},
                 {"num_hidden_layers", &DecoderConfig::layers, /*required=*/true},
                 {"num_attention_heads", &DecoderConfig::heads, /*required=*/true},
                 {"num_key_value_heads", &DecoderConfig::kv_heads, false, /*null_is_zero=*/true},
                 {"head_dim", &DecoderConfig::head_dim},
                 {"rms_norm_eps", &DecoderConfig::norm_eps},
                 {"initializer_range", &DecoderConfig::init_std},
                 {"tie_word_embeddings", &DecoderConfig::tied_head}};
  family.fixed = {{"architectures", {architecture}, Use::kWrite},
                  {"hidden_act", "silu"},
                  {"attention_dropout", 0.0, Use::kWrite},
                  {"torch_dtype", "float32", Use::kWrite}};
  return family;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> BuildDecoder(const DecoderFamily& family,
                                                            const nlohmann::json& json,
                                                            const ModelOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const DecoderConfig config, ReadConfig(family, json));
  return std::make_unique<Decoder>(config, WriteConfig(family, config, json), options);
}

void AddQwenWindow(DecoderFamily& family) {
  // "sliding_window" and "max_window_layers" are in every file and mean nothing without the first.
  family.fixed.insert(family.fixed.end(), {{"use_sliding_window", false},
                                           {"sliding_window", nullptr, FixedKey::Use::kUnused},
                                           {"max_window_layers", nullptr, FixedKey::Use::kUnused}});
}

void AddQwenExperts(DecoderFamily& family) {
  DecoderConfig& base = family.base;
  base.names.router = "gate";
  base.names.experts = "experts";
  base.balance_coefficient = 0.001;
  family.keys.insert(family.keys.end(),
                     {{"num_experts", &DecoderConfig::experts},
                      {"num_experts_per_tok", &DecoderConfig::experts_per_token},
                      {"moe_intermediate_size", &DecoderConfig::expert_hidden},
                      {"norm_topk_prob", &DecoderConfig::normalize_expert_weights},
                      {"output_router_logits", &DecoderConfig::balances_experts},
                      {"router_aux_loss_coef", &DecoderConfig::balance_coefficient},
                      {"decoder_sparse_step", &DecoderConfig::sparse_step},
                      {"mlp_only_layers", &DecoderConfig::dense_layers}});
}

VisionRegistration::VisionRegistration(const std::string& model_type,
                                       const std::string& text_type) {
  const ModelRegistration registration(
      model_type,
      [model_type, text_type](const nlohmann::json&, const ModelOptions&)
          -> absl::StatusOr<std::unique_ptr<LanguageModel>> {
        return Unimplemented("model_type \"", model_type,
                             "\" has a vision tower, which is not computed here; expected a text "
                             "model: model_type \"",
                             text_type,
                             "\", with the keys of \"text_config\". From a directory with weights "
                             "(--init_from) its text model is taken");
      },
      {});
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
    config.rope.theta = preset.rope_theta;
    config.norm_eps = preset.norm_eps;
    nlohmann::json json = WriteConfig(family, config, preset.more);
    json.erase(kLayerTypes);  // the pattern implies them
    json.update(preset.more);
    presets.push_back({preset.name, json.dump()});
  }
  const std::string model_type = family.model_type;
  const ModelRegistration registration(
      model_type,
      [family = std::move(family)](const nlohmann::json& json, const ModelOptions& options) {
        return BuildDecoder(family, json, options);
      },
      std::move(presets));
}

}  // namespace zeroth
