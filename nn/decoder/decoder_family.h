// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A family of decoders as a table: what it is called in Hugging Face, what its config.json says,
// and the flags and names of DecoderConfig. docs/writing_a_model.md shows one.

#ifndef ZEROTH_NN_DECODER_DECODER_FAMILY_H_
#define ZEROTH_NN_DECODER_DECODER_FAMILY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/decoder/decoder.h"

namespace zeroth {

// A key of config.json that gives a field its value and is written with it. A key that is absent
// leaves what `DecoderFamily::base` has, unless it is required. Several keys may give one field:
// the last one that is there counts, and all are written; so may one key give several fields.
struct ConfigKey {
  std::string name;
  std::variant<int64_t DecoderConfig::*, double DecoderConfig::*, bool DecoderConfig::*,
               std::vector<int64_t> DecoderConfig::*>
      field;
  bool required = false;
};

// A key of config.json about what every model of the family has.
struct FixedKey {
  enum class Use : uint8_t {
    kBoth,   // written; any other value is refused
    kRead,   // any other value is refused
    kWrite,  // written; other values make no difference here
  };
  std::string name;
  nlohmann::json value;
  Use use = Use::kBoth;
};

// A model of published sizes, for PresetConfig; a zero is as in DecoderConfig. `more` are further
// keys of its config.json.
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
  DecoderConfig base;  // what a config.json does not say
  std::vector<ConfigKey> keys;
  std::vector<FixedKey> fixed;
  std::vector<DecoderPreset> presets;
};

// What Llama began and most later families share: the names of the modules, RMS norms, a gated MLP
// with SiLU, no biases, and the keys of config.json. Their tables add what is their own.
DecoderFamily LlamaLikeFamily(const std::string& model_type, const std::string& architecture);

// A model from the content of a config.json. InvalidArgument names the key for a size that is
// missing or does not fit the others and for what the family does not compute. Keys about rotary
// positions are those of rope_config.h, for every family that has them.
absl::StatusOr<std::unique_ptr<LanguageModel>> BuildDecoder(const DecoderFamily& family,
                                                            const nlohmann::json& json,
                                                            const ModelOptions& options);

// Put one at namespace scope in the family's .cc, in a target with alwayslink: it adds the family
// and its presets to ModelRegistry.
struct DecoderRegistration {
  explicit DecoderRegistration(DecoderFamily family);
};

}  // namespace zeroth

#endif  // ZEROTH_NN_DECODER_DECODER_FAMILY_H_
