// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The configuration of Gemma 3's text models. llama.cpp fixes what has no key: every sixth layer
// has no window, and windowed layers rotate with base 10000, unscaled, unless a key says otherwise.

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_builders.h"
#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr char kArchitecture[] = "gemma3";
constexpr int64_t kPattern = 6;
constexpr double kLocalTheta = 10000.0;
constexpr char kActivation[] = "gelu_pytorch_tanh";

// llama.cpp scales scores by the head size, except in the model with 62 blocks, 27B.
int64_t QueryScalar(int64_t blocks, int64_t width, int64_t heads, int64_t head_dim) {
  return blocks == 62 && heads > 0 ? width / heads : head_dim;
}

Json LayerTypes(int64_t blocks) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < blocks; ++layer) {
    types.push_back((layer + 1) % kPattern == 0 ? "full_attention" : "sliding_attention");
  }
  return types;
}

Json ValueOf(const HfConfig& config, const char* key) {
  return config.Has(key) ? config.json().at(key) : Json();
}

// Rotary positions, whose keys are those of ReadRopeOfLayers.
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

}  // namespace

absl::StatusOr<GgufMetadata> Gemma3Metadata(const HfConfig& config) {
  MetadataBuilder out(config, kArchitecture);
  // Absent keys have the values of transformers' defaults.
  ZEROTH_ASSIGN_OR_RETURN(const int64_t width, config.GetInt("hidden_size"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t blocks, config.GetInt("num_hidden_layers"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t heads, config.GetInt("num_attention_heads"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t head_dim, config.GetIntOr("head_dim", 256));
  out.Count("context_length", config.GetIntOr("max_position_embeddings", 131072));
  out.Count("embedding_length", width);
  out.Count("block_count", blocks);
  out.Count("feed_forward_length", config.GetInt("intermediate_size"));
  out.Count("attention.head_count", heads);
  const char* const kv_heads = "num_key_value_heads";
  out.Count("attention.head_count_kv",
            config.GetIntOr(kv_heads, config.json().contains(kv_heads) ? heads : 4));
  out.Count("attention.key_length", head_dim);
  out.Count("attention.value_length", head_dim);
  out.Count("vocab_size", config.GetInt("vocab_size"));
  out.Float("attention.layer_norm_rms_epsilon", config.GetDoubleOr("rms_norm_eps", 1e-6));
  out.Require("hidden_activation", config.GetStringOr("hidden_activation", kActivation),
              std::string(kActivation));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    out.Require<Json>(key, ValueOf(config, key), Json());
  }
  for (const char* key : {"use_bidirectional_attention", "attention_bias"}) {
    out.Require(key, config.GetBoolOr(key, false), false);
  }
  out.Require("query_pre_attn_scalar", config.GetIntOr("query_pre_attn_scalar", 256),
              QueryScalar(blocks, width, heads, head_dim));
  const char* const window = "sliding_window";
  if (config.json().contains(window) && !config.Has(window)) {
    out.Keep(Unimplemented(config.where(), ": key \"", window,
                           "\" is null, expected a number of tokens, as llama.cpp needs"));
  }
  out.Count(kSlidingWindow, config.GetIntOr(window, 4096));
  if (blocks > 0 && blocks < 10000) {
    const Json types = ValueOf(config, "layer_types");
    if (types.is_null()) {
      out.Require("sliding_window_pattern", config.GetIntOr("sliding_window_pattern", kPattern),
                  kPattern);
    } else {
      out.Require<Json>("layer_types", types, LayerTypes(blocks));
    }
  }
  SetRope(config, out);
  return std::move(out).Build();
}

absl::StatusOr<HfConfig> Gemma3Config(const GgufMetadata& metadata, const HfConfigFacts& facts) {
  ConfigBuilder out(metadata, kArchitecture);
  const int64_t heads = out.Int("attention.head_count");
  const int64_t width = out.Int("embedding_length");
  const int64_t blocks = out.Int("block_count");
  const int64_t head_dim = out.IntOr("attention.key_length", 256);
  out["model_type"] = "gemma3_text";
  out["architectures"] = {"Gemma3ForCausalLM"};
  out["hidden_activation"] = kActivation;
  out["max_position_embeddings"] = out.Int("context_length");
  out["hidden_size"] = width;
  out["intermediate_size"] = out.Int("feed_forward_length");
  out["num_hidden_layers"] = blocks;
  out["num_attention_heads"] = heads;
  out["num_key_value_heads"] = out.IntOr("attention.head_count_kv", heads);
  out["head_dim"] = head_dim;
  out["query_pre_attn_scalar"] = QueryScalar(blocks, width, heads, head_dim);
  out["rms_norm_eps"] = out.Double("attention.layer_norm_rms_epsilon");
  out["sliding_window"] = out.Int(kSlidingWindow);
  out["sliding_window_pattern"] = out.IntOr("attention.sliding_window_pattern", kPattern);
  out["rope_theta"] = out.DoubleOr("rope.freq_base", 1e6);
  out["rope_local_base_freq"] = out.DoubleOr("rope.freq_base_swa", kLocalTheta);
  const double factor = out.DoubleOr("rope.scaling.factor", 0.0);
  const std::string type = out.TextOr("rope.scaling.type", "linear");
  if (type == "linear") {
    if (factor != 0) out["rope_scaling"] = {{"rope_type", "linear"}, {"factor", factor}};
  } else if (type != "none") {
    out.Refuse("rope.scaling.type", absl::StrCat("\"", type, "\""), "none or linear");
  }
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (const double cap = out.DoubleOr(key, 0.0); cap != 0) {
      out.Refuse(key, absl::StrCat(cap), "none: scores are not capped here");
    }
  }
  out["attention_bias"] = false;
  out["vocab_size"] = facts.vocab_size;
  out["tie_word_embeddings"] = facts.tie_word_embeddings;
  out["torch_dtype"] = facts.torch_dtype;
  return std::move(out).Build();
}

}  // namespace zeroth
