// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The configuration of gpt-oss. llama.cpp fixes what has no key: windows in every other layer, from
// the first on; the clamped SwiGLU of 1.702 and 7; weights by a softmax over the chosen experts;
// and the bounds of YaRN's ramp, which it always rounds to whole pairs.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_builders.h"
#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

constexpr char kArchitecture[] = "gpt-oss";
// transformers' defaults.
constexpr double kTheta = 150000.0;
constexpr double kFactor = 32.0;
constexpr int64_t kOriginalContext = 4096;
constexpr double kBetaFast = 32.0;
constexpr double kBetaSlow = 1.0;

Json LayerTypes(int64_t blocks) {
  Json types = Json::array();
  for (int64_t layer = 0; layer < blocks; ++layer) {
    types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  }
  return types;
}

// The bounds of YaRN's ramp as llama.cpp rounds them.
struct Ramp {
  double low;
  double high;
};
Ramp RampOf(double beta_fast, double beta_slow, double theta, int64_t context, int64_t head_dim) {
  const double width = static_cast<double>(head_dim);
  const auto pair = [&](double beta) {
    return width * std::log(static_cast<double>(context) / (beta * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  return {std::max(0.0, std::floor(pair(beta_fast))),
          std::min(width - 1, std::ceil(pair(beta_slow)))};
}

// Refuses a YaRN ramp other than that of beta_fast 32 and beta_slow 1, which llama.cpp always uses
// for this architecture.
void RequireRamp(const HfConfig& config, absl::string_view where, double beta_fast,
                 double beta_slow, double theta, int64_t context, int64_t head_dim,
                 MetadataBuilder& out) {
  const Ramp ramp = RampOf(beta_fast, beta_slow, theta, context, head_dim);
  const Ramp usual = RampOf(kBetaFast, kBetaSlow, theta, context, head_dim);
  if (ramp.low == usual.low && ramp.high == usual.high) return;
  out.Keep(Unimplemented(config.where(), ": key \"", where, "\" has beta_fast ", beta_fast,
                         " and beta_slow ", beta_slow, ", expected ", kBetaFast, " and ", kBetaSlow,
                         ", which llama.cpp always uses in a gpt-oss"));
}

// Sets YaRN, which all files of the family have. llama.cpp derives the attention factor.
void SetRope(const HfConfig& config, int64_t head_dim, MetadataBuilder& out) {
  const absl::StatusOr<HfRope> rope = HfRopeOf(config);
  if (!out.Keep(rope.status())) return;
  // A file without the object has the defaults.
  const bool said = !rope->where.empty();
  const auto key = [&](absl::string_view name) { return absl::StrCat(rope->where, ".", name); };
  out.Require("partial_rotary_factor", absl::StatusOr<double>(rope->rotated_share), 1.0);
  out.Float("rope.freq_base", rope->theta);
  if (said)
    out.Require(key("rope_type"), absl::StatusOr<std::string>(rope->type), std::string("yarn"));
  for (const char* own : {"mscale", "mscale_all_dim", "attention_factor"}) {
    if (!said || !config.Has(key(own))) continue;
    out.Require<Json>(key(own), config.json().at(rope->where).at(own), Json());
  }
  out.Text("rope.scaling.type", "yarn");
  out.Float("rope.scaling.factor", said ? config.GetDouble(key("factor")) : kFactor);
  const absl::StatusOr<int64_t> context =
      said ? config.GetIntOr(key("original_max_position_embeddings"), kOriginalContext)
           : kOriginalContext;
  const absl::StatusOr<double> fast =
      said ? config.GetDoubleOr(key("beta_fast"), kBetaFast) : kBetaFast;
  const absl::StatusOr<double> slow =
      said ? config.GetDoubleOr(key("beta_slow"), kBetaSlow) : kBetaSlow;
  out.Count("rope.scaling.original_context_length", context);
  out.Float("rope.scaling.yarn_beta_fast", fast);
  out.Float("rope.scaling.yarn_beta_slow", slow);
  if (context.ok() && fast.ok() && slow.ok()) {
    RequireRamp(config, rope->where, *fast, *slow, rope->theta, *context, head_dim, out);
  }
}

}  // namespace

absl::StatusOr<GgufMetadata> GptOssMetadata(const HfConfig& config) {
  MetadataBuilder out(config, kArchitecture);
  ZEROTH_ASSIGN_OR_RETURN(const int64_t blocks, config.GetInt("num_hidden_layers"));
  const absl::StatusOr<int64_t> inner = config.GetInt("intermediate_size");
  const absl::StatusOr<int64_t> heads = config.GetInt("num_attention_heads");
  const absl::StatusOr<int64_t> head_dim = config.GetIntOr("head_dim", 64);
  const char* const kv_heads = "num_key_value_heads";
  out.Count("context_length", config.GetIntOr("max_position_embeddings", 131072));
  out.Count("embedding_length", config.GetInt("hidden_size"));
  out.Count("block_count", blocks);
  out.Count("feed_forward_length", inner);
  out.Count("expert_feed_forward_length", inner);
  out.Count("attention.head_count", heads);
  out.Count("attention.head_count_kv",
            config.GetIntOr(kv_heads, config.json().contains(kv_heads) ? heads.value_or(0) : 8));
  out.Count("attention.key_length", head_dim);
  out.Count("attention.value_length", head_dim);
  out.Count("rope.dimension_count", head_dim);
  out.Count("vocab_size", config.GetInt("vocab_size"));
  out.Count("expert_count", config.GetIntOr("num_local_experts", 128));
  out.Count("expert_used_count", config.GetIntOr("num_experts_per_tok", 4));
  out.Float("attention.layer_norm_rms_epsilon", config.GetDoubleOr("rms_norm_eps", 1e-5));
  const char* const window = "sliding_window";
  if (config.json().contains(window) && !config.Has(window)) {
    out.Keep(Unimplemented(config.where(), ": key \"", window,
                           "\" is null, expected a number of tokens, as llama.cpp needs"));
  }
  out.Count(kSlidingWindow, config.GetIntOr(window, 128));
  if (blocks > 0 && blocks < kMostBlocks && config.Has("layer_types")) {
    out.Require<Json>("layer_types", config.json().at("layer_types"), LayerTypes(blocks));
  }
  out.Require("swiglu_limit", config.GetDoubleOr("swiglu_limit", 7.0), 7.0);
  out.Require("swiglu_alpha", config.GetDoubleOr("swiglu_alpha", 1.702), 1.702);
  SetRope(config, head_dim.value_or(0), out);
  return std::move(out).Build();
}

absl::StatusOr<HfConfig> GptOssConfig(const GgufMetadata& metadata, const HfConfigFacts& facts) {
  ConfigBuilder out(metadata, kArchitecture, facts);
  const int64_t heads = out.Int("attention.head_count");
  const int64_t width = out.Int("embedding_length");
  const int64_t blocks = out.Int("block_count");
  const int64_t head_dim = out.IntOr("attention.key_length", heads > 0 ? width / heads : 0);
  out["model_type"] = "gpt_oss";
  out["architectures"] = {"GptOssForCausalLM"};
  out["hidden_act"] = "silu";
  out["intermediate_size"] = out.Int("expert_feed_forward_length");
  out["head_dim"] = head_dim;
  out["num_local_experts"] = out.Int("expert_count");
  out["num_experts_per_tok"] = out.Int("expert_used_count");
  out.SetSizes();
  out["sliding_window"] = out.Int(kSlidingWindow);
  if (blocks > 0 && blocks < kMostBlocks) out["layer_types"] = LayerTypes(blocks);
  out["attention_bias"] = facts.attention_bias;
  out["swiglu_limit"] = 7.0;
  out["rope_theta"] = out.DoubleOr("rope.freq_base", kTheta);
  const int64_t rotated = out.IntOr("rope.dimension_count", head_dim);
  if (rotated != head_dim) {
    out.Refuse("rope.dimension_count", absl::StrCat(rotated),
               absl::StrCat(head_dim, ", the whole of a head"));
  }
  const std::string type = out.TextOr("rope.scaling.type", "linear");
  if (type != "yarn") out.Refuse("rope.scaling.type", absl::StrCat("\"", type, "\""), "yarn");
  // The model's own "truncate" has no key.
  out["rope_scaling"] = {{"rope_type", "yarn"},
                         {"factor", out.Double("rope.scaling.factor")},
                         {"beta_fast", out.DoubleOr("rope.scaling.yarn_beta_fast", kBetaFast)},
                         {"beta_slow", out.DoubleOr("rope.scaling.yarn_beta_slow", kBetaSlow)},
                         {"truncate", false},
                         {"original_max_position_embeddings",
                          out.IntOr("rope.scaling.original_context_length", kOriginalContext)}};
  return std::move(out).Build();
}

}  // namespace zeroth
