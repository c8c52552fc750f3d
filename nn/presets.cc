// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/presets.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace zeroth {
namespace {

struct Gpt2Preset {
  const char* name;
  int64_t vocab, positions, embd, layers, heads;
};

constexpr Gpt2Preset kGpt2[] = {
    {"gpt2_nano", 257, 256, 128, 4, 4},        {"gpt2_124m", 50257, 1024, 768, 12, 12},
    {"gpt2_355m", 50257, 1024, 1024, 24, 16},  {"gpt2_774m", 50257, 1024, 1280, 36, 20},
    {"gpt2_1558m", 50257, 1024, 1600, 48, 25},
};

struct LlamaPreset {
  const char* name;
  int64_t vocab, positions, hidden, intermediate, layers, heads, kv_heads;
  double rope_theta;
};

constexpr LlamaPreset kLlama[] = {
    {"llama_tiny", 257, 256, 128, 344, 4, 4, 2, 10000.0},
    {"llama_1b", 32000, 2048, 2048, 5632, 22, 32, 4, 10000.0},
    {"llama_8b", 128256, 8192, 4096, 14336, 32, 32, 8, 500000.0},
};

}  // namespace

absl::StatusOr<nlohmann::json> PresetConfig(absl::string_view name) {
  for (const Gpt2Preset& preset : kGpt2) {
    if (name != preset.name) continue;
    return nlohmann::json{{"model_type", "gpt2"},
                          {"vocab_size", preset.vocab},
                          {"n_positions", preset.positions},
                          {"n_embd", preset.embd},
                          {"n_layer", preset.layers},
                          {"n_head", preset.heads},
                          {"layer_norm_epsilon", 1e-5},
                          {"initializer_range", 0.02}};
  }
  for (const LlamaPreset& preset : kLlama) {
    if (name != preset.name) continue;
    return nlohmann::json{{"model_type", "llama"},
                          {"vocab_size", preset.vocab},
                          {"max_position_embeddings", preset.positions},
                          {"hidden_size", preset.hidden},
                          {"intermediate_size", preset.intermediate},
                          {"num_hidden_layers", preset.layers},
                          {"num_attention_heads", preset.heads},
                          {"num_key_value_heads", preset.kv_heads},
                          {"rope_theta", preset.rope_theta},
                          {"rms_norm_eps", 1e-5},
                          {"initializer_range", 0.02},
                          {"tie_word_embeddings", false}};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown model '", name, "'; the presets are: ", absl::StrJoin(PresetNames(), ", ")));
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Gpt2Preset& preset : kGpt2) names.push_back(preset.name);
  for (const LlamaPreset& preset : kLlama) names.push_back(preset.name);
  return names;
}

}  // namespace zeroth
