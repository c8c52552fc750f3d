// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The configurations of Gemma 2 and of Gemma 3's text models. llama.cpp fixes what has no key:
// which layers have no window; in Gemma 2, that scores and logits are capped; in Gemma 3, that
// windowed layers rotate with base 10000, unscaled, unless a key says otherwise.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_builders.h"
#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

// A generation of the family. Absent keys have the values of transformers' defaults.
struct Gemma {
  const char* architecture;
  int64_t pattern;         // every pattern-th layer has no window
  int64_t blocks_of_27b;   // of the 27B model, whose scores llama.cpp scales by width / heads
  int64_t most_positions;  // default of max_position_embeddings
};
constexpr Gemma kGemma2 = {"gemma2", 2, 46, 8192};
constexpr Gemma kGemma3 = {"gemma3", 6, 62, 131072};

constexpr double kLocalTheta = 10000.0;
constexpr char kActivation[] = "gelu_pytorch_tanh";
// The caps have the same names in both files. These are the values of Gemma 2's absent keys.
constexpr char kScoreCap[] = "attn_logit_softcapping";
constexpr char kLogitCap[] = "final_logit_softcapping";
constexpr double kDefaultScoreCap = 50.0;
constexpr double kDefaultLogitCap = 30.0;

struct Sizes {
  int64_t width = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;

  int64_t QueryScalar(const Gemma& gemma) const {
    return blocks == gemma.blocks_of_27b && heads > 0 ? width / heads : head_dim;
  }
  // Whether a list of the layers has a sane length.
  bool CountsLayers() const { return blocks > 0 && blocks < 10000; }
};

Json LayerTypes(const Gemma& gemma, int64_t blocks) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < blocks; ++layer) {
    types.push_back((layer + 1) % gemma.pattern == 0 ? "full_attention" : "sliding_attention");
  }
  return types;
}

// A number that llama.cpp needs, which the file may not set to null.
template <typename T>
absl::StatusOr<T> NotNull(const HfConfig& config, const char* key, const char* what,
                          absl::StatusOr<T> value) {
  if (!config.json().contains(key) || config.Has(key)) return value;
  return Unimplemented(config.where(), ": key \"", key, "\" is null, expected ", what,
                       ", as llama.cpp needs");
}

Json ValueOf(const HfConfig& config, const char* key) {
  return config.Has(key) ? config.json().at(key) : Json();
}

// Sets rotary positions, from the keys that ReadRopeOfLayers describes.
void SetRope(const HfConfig& config, MetadataBuilder& out) {
  const std::string parameters = "rope_parameters";
  const auto in = [&](const char* kind, const char* key) {
    return absl::StrCat(parameters, ".", kind, ".", key);
  };
  const std::string local = in("sliding_attention", "rope_theta");
  out.Require(config.Has(local) ? local : "rope_local_base_freq",
              config.GetDoubleOr(
                  local, config.GetDoubleOr("rope_local_base_freq", kLocalTheta).value_or(0.0)),
              kLocalTheta);
  const std::string local_type = in("sliding_attention", "rope_type");
  out.Require(local_type, config.GetStringOr(local_type, "default"), std::string("default"));
  const absl::StatusOr<double> theta = config.GetDoubleOr("rope_theta", 1e6);
  if (!out.Keep(theta.status())) return;
  out.Float("rope.freq_base", config.GetDoubleOr(in("full_attention", "rope_theta"), *theta));
  const std::string where =
      config.Has(in("full_attention", "rope_type")) ? in("full_attention", "") : "rope_scaling.";
  const absl::StatusOr<std::string> older = config.GetStringOr(where + "type", "default");
  if (!out.Keep(older.status())) return;
  const absl::StatusOr<std::string> type = config.GetStringOr(where + "rope_type", *older);
  if (!out.Keep(type.status()) || *type == "default") return;
  out.Require(where + "rope_type", type, std::string("linear"));
  out.Text("rope.scaling.type", "linear");
  out.Float("rope.scaling.factor", config.GetDouble(where + "factor"));
}

absl::StatusOr<Sizes> SetSizes(const Gemma& gemma, const HfConfig& config, MetadataBuilder& out) {
  Sizes sizes;
  ZEROTH_ASSIGN_OR_RETURN(sizes.width, config.GetInt("hidden_size"));
  ZEROTH_ASSIGN_OR_RETURN(sizes.blocks, config.GetInt("num_hidden_layers"));
  ZEROTH_ASSIGN_OR_RETURN(sizes.heads, config.GetInt("num_attention_heads"));
  ZEROTH_ASSIGN_OR_RETURN(sizes.head_dim, config.GetIntOr("head_dim", 256));
  out.Count("context_length", config.GetIntOr("max_position_embeddings", gemma.most_positions));
  out.Count("embedding_length", sizes.width);
  out.Count("block_count", sizes.blocks);
  out.Count("feed_forward_length", config.GetInt("intermediate_size"));
  out.Count("attention.head_count", sizes.heads);
  const char* const kv_heads = "num_key_value_heads";
  out.Count("attention.head_count_kv",
            config.GetIntOr(kv_heads, config.json().contains(kv_heads) ? sizes.heads : 4));
  out.Count("attention.key_length", sizes.head_dim);
  out.Count("attention.value_length", sizes.head_dim);
  out.Count("vocab_size", config.GetInt("vocab_size"));
  out.Float("attention.layer_norm_rms_epsilon", config.GetDoubleOr("rms_norm_eps", 1e-6));
  return sizes;
}

void SetWindow(const HfConfig& config, MetadataBuilder& out) {
  const char* const window = "sliding_window";
  out.Count(kSlidingWindow,
            NotNull(config, window, "a number of tokens", config.GetIntOr(window, 4096)));
}

void RequireActivation(const HfConfig& config, MetadataBuilder& out) {
  out.Require("hidden_activation", config.GetStringOr("hidden_activation", kActivation),
              std::string(kActivation));
}

void RequireScores(const Gemma& gemma, const Sizes& sizes, const HfConfig& config,
                   MetadataBuilder& out) {
  for (const char* key : {"use_bidirectional_attention", "attention_bias"}) {
    out.Require(key, config.GetBoolOr(key, false), false);
  }
  out.Require("query_pre_attn_scalar", config.GetIntOr("query_pre_attn_scalar", 256),
              sizes.QueryScalar(gemma));
}

// Sets the keys that Gemma 2 and 3 share.
void SetConfig(const Gemma& gemma, ConfigBuilder& out) {
  Sizes sizes;
  sizes.heads = out.Int("attention.head_count");
  sizes.width = out.Int("embedding_length");
  sizes.blocks = out.Int("block_count");
  sizes.head_dim = out.IntOr("attention.key_length", 256);
  out["hidden_activation"] = kActivation;
  out["intermediate_size"] = out.Int("feed_forward_length");
  out["head_dim"] = sizes.head_dim;
  out["query_pre_attn_scalar"] = sizes.QueryScalar(gemma);
  out.SetSizes();
  out["attention_bias"] = false;
}

}  // namespace

absl::StatusOr<GgufMetadata> Gemma2Metadata(const HfConfig& config) {
  MetadataBuilder out(config, kGemma2.architecture);
  ZEROTH_ASSIGN_OR_RETURN(const Sizes sizes, SetSizes(kGemma2, config, out));
  for (const auto& [key, usual] :
       {std::pair(kScoreCap, kDefaultScoreCap), std::pair(kLogitCap, kDefaultLogitCap)}) {
    out.Float(key, NotNull(config, key, "a number", config.GetDoubleOr(key, usual)));
  }
  SetWindow(config, out);
  RequireActivation(config, out);
  RequireScores(kGemma2, sizes, config, out);
  if (sizes.CountsLayers() && config.Has("layer_types")) {
    out.Require<Json>("layer_types", ValueOf(config, "layer_types"),
                      LayerTypes(kGemma2, sizes.blocks));
  }
  for (const char* key :
       {"rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type"}) {
    out.Require(key, config.GetStringOr(key, "default"), std::string("default"));
  }
  ZEROTH_ASSIGN_OR_RETURN(const double theta, config.GetDoubleOr("rope_theta", 10000.0));
  out.Float("rope.freq_base", config.GetDoubleOr("rope_parameters.rope_theta", theta));
  return std::move(out).Build();
}

absl::StatusOr<HfConfig> Gemma2Config(const GgufMetadata& metadata, const HfConfigFacts& facts) {
  ConfigBuilder out(metadata, kGemma2.architecture, facts);
  SetConfig(kGemma2, out);
  out["architectures"] = {"Gemma2ForCausalLM"};
  out["sliding_window"] = out.IntOr(kSlidingWindow, 4096);
  out[kScoreCap] = out.DoubleOr(kScoreCap, kDefaultScoreCap);
  out[kLogitCap] = out.DoubleOr(kLogitCap, kDefaultLogitCap);
  out["rope_theta"] = out.DoubleOr("rope.freq_base", 10000.0);
  out.RefuseScaledPositions();
  return std::move(out).Build();
}

absl::StatusOr<GgufMetadata> Gemma3Metadata(const HfConfig& config) {
  MetadataBuilder out(config, kGemma3.architecture);
  ZEROTH_ASSIGN_OR_RETURN(const Sizes sizes, SetSizes(kGemma3, config, out));
  RequireActivation(config, out);
  for (const char* key : {kScoreCap, kLogitCap}) {
    out.Require<Json>(key, ValueOf(config, key), Json());
  }
  RequireScores(kGemma3, sizes, config, out);
  SetWindow(config, out);
  if (sizes.CountsLayers()) {
    const Json types = ValueOf(config, "layer_types");
    if (types.is_null()) {
      out.Require("sliding_window_pattern",
                  config.GetIntOr("sliding_window_pattern", kGemma3.pattern), kGemma3.pattern);
    } else {
      out.Require<Json>("layer_types", types, LayerTypes(kGemma3, sizes.blocks));
    }
  }
  SetRope(config, out);
  return std::move(out).Build();
}

absl::StatusOr<HfConfig> Gemma3Config(const GgufMetadata& metadata, const HfConfigFacts& facts) {
  ConfigBuilder out(metadata, kGemma3.architecture, facts);
  SetConfig(kGemma3, out);
  out["model_type"] = "gemma3_text";
  out["architectures"] = {"Gemma3ForCausalLM"};
  out["sliding_window"] = out.Int(kSlidingWindow);
  out["sliding_window_pattern"] = out.IntOr("attention.sliding_window_pattern", kGemma3.pattern);
  out["rope_theta"] = out.DoubleOr("rope.freq_base", 1e6);
  out["rope_local_base_freq"] = out.DoubleOr("rope.freq_base_swa", kLocalTheta);
  out.SetLinearRope();
  for (const char* key : {kScoreCap, kLogitCap}) {
    if (const double cap = out.DoubleOr(key, 0.0); cap != 0) {
      out.Refuse(key, absl::StrCat(cap), "none: scores are not capped here");
    }
  }
  return std::move(out).Build();
}

}  // namespace zeroth
