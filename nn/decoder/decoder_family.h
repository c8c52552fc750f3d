// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A family of decoders as a table: its name in Hugging Face, the keys of its config.json, and the
// flags and names of DecoderConfig. docs/writing_a_model.md shows one.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/decoder/decoder.h"

namespace zeroth {

// A key of config.json that sets a field, and is written with its value. If the key is absent, and
// not required, the field keeps its value in `DecoderFamily::base`. Several keys may set one field:
// the last one that is present counts, and all are written. One key may also set several fields.
struct ConfigKey {
  std::string name;
  std::variant<int64_t DecoderConfig::*, double DecoderConfig::*, bool DecoderConfig::*,
               std::vector<int64_t> DecoderConfig::*>
      field;
  bool required = false;
  // Null sets a size or a number to 0, with its meaning in DecoderConfig, and 0 is written as null.
  // Otherwise null counts as absent.
  bool null_is_zero = false;
  // A size may be 0, and is written as 0. Otherwise a size is at least 1, or 0 by null.
  bool may_be_zero = false;
};

// A key of config.json with one value in all models of the family.
struct FixedKey {
  enum class Use : uint8_t {
    kBoth,   // written, and other values are refused
    kRead,   // other values are refused
    kWrite,  // written; other values make no difference
    // "sliding_window" of Dots1Config in transformers, 4096 if absent. Refused if a layer has the
    // window: without "layer_types", those from "max_window_layers" on, 62 if absent. Null is
    // written.
    kNoWindow,
    kUnused,  // not written; occurs in files, and its value makes no difference
  };
  std::string name;
  nlohmann::json value;
  Use use = Use::kBoth;
};

// A model of published sizes, for PresetConfig; zeros have their meaning in DecoderConfig. `more`
// has further keys of its config.json.
struct DecoderPreset {
  std::string name;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  int64_t dim = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t mlp_hidden = 0;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  nlohmann::json more = nlohmann::json::object();
};

struct DecoderFamily {
  std::string model_type;
  DecoderConfig base;  // the values that config.json does not set
  std::vector<ConfigKey> keys;
  std::vector<FixedKey> fixed;
  std::vector<DecoderPreset> presets;
  // transformers' name of the model whose head scores texts; empty: the name in "architectures"
  // with its end replaced. No value: transformers has none, and a head that scores is refused.
  std::optional<std::string> classifier = "";
};

// Shared by Llama and most later families: the names of modules, RMS norms, a gated MLP with SiLU,
// no biases, and the keys of config.json. A family's table adds more.
DecoderFamily LlamaLikeFamily(const std::string& model_type, const std::string& architecture);

// Adds what the files of all Qwen families have: a window that no layer uses. One that is used is
// refused.
void AddQwenWindow(DecoderFamily& family);
// Adds the names and the keys that Qwen's mixtures of experts share.
void AddQwenExperts(DecoderFamily& family);

// Builds a model from the content of a config.json. InvalidArgument names the key for a size that
// is missing or does not fit the others, for a value that the family does not support, and for a
// key that is neither in its table nor known to be harmless (harmless_keys.h). Keys of rotary
// positions are those of rope_config.h. "layer_types" may select full attention for all layers, or
// the window for all; in a family that mixes windows, either for each layer.
absl::StatusOr<std::unique_ptr<LanguageModel>> BuildDecoder(const DecoderFamily& family,
                                                            const nlohmann::json& json,
                                                            const ModelOptions& options);

// Refuses a model of images, `model_type`, and names the type of its text model. Put one at
// namespace scope beside the text model's.
struct VisionRegistration {
  VisionRegistration(const std::string& model_type, const std::string& text_type);
};

// Put one at namespace scope in the family's .cc, in a target with alwayslink. It adds the family
// and its presets to ModelRegistry.
struct DecoderRegistration {
  explicit DecoderRegistration(DecoderFamily family);
};

}  // namespace zeroth
