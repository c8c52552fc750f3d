// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The configuration of Gemma 2. llama.cpp fixes what has no key: every second layer has no window,
// and scores and logits are capped.

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_builders.h"
#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr char kArchitecture[] = "gemma2";
constexpr char kActivation[] = "gelu_pytorch_tanh";
// The caps have the same names in both files. These are the values of absent keys.
constexpr char kScoreCap[] = "attn_logit_softcapping";
constexpr char kLogitCap[] = "final_logit_softcapping";
constexpr double kDefaultScoreCap = 50.0;
constexpr double kDefaultLogitCap = 30.0;

// llama.cpp scales scores by the head size, except in the model with 46 blocks, 27B.
int64_t QueryScalar(int64_t blocks, int64_t width, int64_t heads, int64_t head_dim) {
  return blocks == 46 && heads > 0 ? width / heads : head_dim;
}

Json LayerTypes(int64_t blocks) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < blocks; ++layer) {
    types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  }
  return types;
}

// A number that llama.cpp needs, which the file may not set to null.
template <typename T>
absl::StatusOr<T> NotNull(const HfConfig& config, const char* key, absl::StatusOr<T> value) {
  if (!config.json().contains(key) || config.Has(key)) return value;
  return Unimplemented(config.where(), ": key \"", key,
                       "\" is null, expected a number, as llama.cpp needs");
}

}  // namespace

absl::StatusOr<GgufMetadata> Gemma2Metadata(const HfConfig& config) {
  MetadataBuilder out(config, kArchitecture);
  // Absent keys have the values of transformers' defaults.
  ZEROTH_ASSIGN_OR_RETURN(const int64_t width, config.GetInt("hidden_size"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t blocks, config.GetInt("num_hidden_layers"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t heads, config.GetInt("num_attention_heads"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t head_dim, config.GetIntOr("head_dim", 256));
  out.Count("context_length", config.GetIntOr("max_position_embeddings", 8192));
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
  out.Float(kScoreCap, NotNull(config, kScoreCap, config.GetDoubleOr(kScoreCap, kDefaultScoreCap)));
  out.Float(kLogitCap, NotNull(config, kLogitCap, config.GetDoubleOr(kLogitCap, kDefaultLogitCap)));
  out.Count(kSlidingWindow,
            NotNull(config, "sliding_window", config.GetIntOr("sliding_window", 4096)));
  out.Require("hidden_activation", config.GetStringOr("hidden_activation", kActivation),
              std::string(kActivation));
  for (const char* key : {"use_bidirectional_attention", "attention_bias"}) {
    out.Require(key, config.GetBoolOr(key, false), false);
  }
  out.Require("query_pre_attn_scalar", config.GetIntOr("query_pre_attn_scalar", 256),
              QueryScalar(blocks, width, heads, head_dim));
  if (blocks > 0 && blocks < 10000 && config.Has("layer_types")) {
    out.Require<Json>("layer_types", config.json().at("layer_types"), LayerTypes(blocks));
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
  ConfigBuilder out(metadata, kArchitecture);
  const int64_t heads = out.Int("attention.head_count");
  const int64_t width = out.Int("embedding_length");
  const int64_t blocks = out.Int("block_count");
  const int64_t head_dim = out.IntOr("attention.key_length", 256);
  out["architectures"] = {"Gemma2ForCausalLM"};
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
  out["sliding_window"] = out.IntOr(kSlidingWindow, 4096);
  out[kScoreCap] = out.DoubleOr(kScoreCap, kDefaultScoreCap);
  out[kLogitCap] = out.DoubleOr(kLogitCap, kDefaultLogitCap);
  out["rope_theta"] = out.DoubleOr("rope.freq_base", 10000.0);
  const std::string scaling = out.TextOr("rope.scaling.type", "none");
  if (scaling != "none") out.Refuse("rope.scaling.type", "\"" + scaling + "\"", "none");
  out["attention_bias"] = false;
  out["vocab_size"] = facts.vocab_size;
  out["tie_word_embeddings"] = facts.tie_word_embeddings;
  out["torch_dtype"] = facts.torch_dtype;
  return std::move(out).Build();
}

}  // namespace zeroth
