// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_config.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_builders.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

absl::StatusOr<GgufMetadata> Gpt2Metadata(const HfConfig& config) {
  MetadataBuilder out(config, "gpt2");
  const absl::StatusOr<int64_t> width = config.GetInt("n_embd");
  // Four times a width that is refused must not overflow.
  const int64_t bounded_width = std::clamp(width.value_or(0), int64_t{0}, int64_t{1} << 32);
  // transformers' defaults, for keys that its older files leave out.
  out.Count("context_length", config.Has("n_positions") ? config.GetInt("n_positions")
                                                        : config.GetIntOr("n_ctx", 1024));
  out.Count("embedding_length", width);
  out.Count("block_count", config.GetInt("n_layer"));
  out.Count("feed_forward_length", config.GetIntOr("n_inner", 4 * bounded_width));
  out.Count("attention.head_count", config.GetInt("n_head"));
  out.Count("vocab_size", config.GetInt("vocab_size"));
  out.Float("attention.layer_norm_epsilon", config.GetDoubleOr("layer_norm_epsilon", 1e-5));
  absl::StatusOr<std::string> activation = config.GetStringOr("activation_function", "gelu_new");
  // Two names of one function.
  if (activation.ok() && *activation == "gelu_pytorch_tanh") activation = "gelu_new";
  out.Require("activation_function", activation, std::string("gelu_new"));
  out.Require("scale_attn_weights", config.GetBoolOr("scale_attn_weights", true), true);
  out.Require("scale_attn_by_inverse_layer_idx",
              config.GetBoolOr("scale_attn_by_inverse_layer_idx", false), false);
  return std::move(out).Build();
}

// The families with Llama's keys, their names in transformers, and whether their config.json has
// keys for the projections' biases.
struct LlamaLike {
  absl::string_view architecture;
  const char* transformers_name;
  bool says_attention_bias;
  bool says_mlp_bias;
};
constexpr absl::string_view kPhi = "phi3";
constexpr LlamaLike kLlamaLikes[] = {
    {"llama", "LlamaForCausalLM", true, true},  {"olmo2", "Olmo2ForCausalLM", true, false},
    {kPhi, "Phi3ForCausalLM", false, false},    {"qwen2", "Qwen2ForCausalLM", false, false},
    {"qwen3", "Qwen3ForCausalLM", true, false}, {"qwen3moe", "Qwen3MoeForCausalLM", true, false}};
constexpr absl::string_view kMixture = "qwen3moe";

absl::StatusOr<const LlamaLike*> FindLlamaLike(absl::string_view architecture) {
  for (const LlamaLike& family : kLlamaLikes) {
    if (family.architecture == architecture) return &family;
  }
  return Unimplemented("GGUF architecture \"", architecture, "\": its configuration is not read");
}

absl::StatusOr<int64_t> HeadDim(const HfConfig& config) {
  ZEROTH_ASSIGN_OR_RETURN(const int64_t heads, config.GetInt("num_attention_heads"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t width, config.GetInt("hidden_size"));
  if (heads < 1) {
    return InvalidArgument(config.where(), ": key \"num_attention_heads\" is ", heads,
                           ", expected at least 1");
  }
  return config.GetIntOr("head_dim", width / heads);
}

// Sets the keys of a Mixtral, a Llama with experts, whose width is the feed-forward length.
void SetMixtral(const HfConfig& config, MetadataBuilder& out) {
  out.Count("expert_count", config.GetIntOr("num_local_experts", 8));
  out.Count("expert_used_count", config.GetIntOr("num_experts_per_tok", 2));
  const char* const window = "sliding_window";
  out.Require<Json>(window, config.Has(window) ? config.json()[window] : Json(), Json());
}

// Sets the keys of experts with a separate width. llama.cpp supports no dense blocks in such a
// model, and always normalizes the weights of a token's experts to sum 1.
void SetExperts(const HfConfig& config, MetadataBuilder& out) {
  const char* const count = config.Has("num_experts") ? "num_experts" : "num_local_experts";
  out.Count("expert_count", config.GetInt(count));
  out.Count("expert_used_count", config.GetInt("num_experts_per_tok"));
  out.Count("expert_feed_forward_length", config.GetInt("moe_intermediate_size"));
  out.Require("norm_topk_prob", config.GetBoolOr("norm_topk_prob", false), true);
  out.Require("decoder_sparse_step", config.GetIntOr("decoder_sparse_step", 1), int64_t{1});
  const Json none = Json::array();
  const char* const dense = "mlp_only_layers";
  out.Require<Json>(dense, config.Has(dense) ? config.json()[dense] : none, none);
}

absl::StatusOr<GgufMetadata> LlamaMetadata(const HfConfig& config, absl::string_view architecture) {
  MetadataBuilder out(config, architecture);
  const absl::StatusOr<int64_t> heads = config.GetInt("num_attention_heads");
  const absl::StatusOr<int64_t> head_dim = HeadDim(config);
  const std::string type = config.ModelType().value_or("");
  const bool mistral = type == "mistral";
  const bool mixtral = type == "mixtral";
  const bool phi = architecture == kPhi;
  out.Count("context_length", config.GetIntOr("max_position_embeddings", mixtral ? 131072
                                                                         : phi   ? 4096
                                                                                 : 2048));
  out.Count("embedding_length", config.GetInt("hidden_size"));
  out.Count("block_count", config.GetInt("num_hidden_layers"));
  out.Count("feed_forward_length", config.GetInt("intermediate_size"));
  out.Count("attention.head_count", heads);
  // A Mistral config.json distinguishes null from an absent key in two cases. If
  // num_key_value_heads is null, there are as many key heads as query heads; if sliding_window is
  // null, there is no window.
  const char* const kv_heads = "num_key_value_heads";
  out.Count("attention.head_count_kv",
            config.GetIntOr(kv_heads, (mistral || mixtral) && !config.json().contains(kv_heads)
                                          ? 8
                                          : heads.value_or(0)));
  out.Count("attention.key_length", head_dim);
  out.Count("attention.value_length", head_dim);
  const absl::StatusOr<HfRope> rope = HfRopeOf(config);
  if (!rope.ok()) return rope.status();
  if (!phi) {
    out.Require("partial_rotary_factor", absl::StatusOr<double>(rope->rotated_share), 1.0);
  }
  out.Count("rope.dimension_count",
            static_cast<int64_t>(static_cast<double>(head_dim.value_or(0)) * rope->rotated_share));
  out.Count("vocab_size", config.GetInt("vocab_size"));
  if (architecture == kMixture) SetExperts(config, out);
  if (mixtral) SetMixtral(config, out);
  out.Float("attention.layer_norm_rms_epsilon",
            config.GetDoubleOr("rms_norm_eps", mixtral || phi ? 1e-5 : 1e-6));
  out.Require("hidden_act", config.GetStringOr("hidden_act", "silu"), std::string("silu"));
  out.Require("use_sliding_window", config.GetBoolOr("use_sliding_window", false), false);
  // Other families have a window only with use_sliding_window.
  const char* const window = "sliding_window";
  if ((mistral && !config.json().contains(window)) || ((mistral || phi) && config.Has(window)))
    out.Count(kSlidingWindow, config.GetIntOr(window, 4096));
  out.Float("rope.freq_base", rope->theta);
  if (rope->type == "linear") {
    out.Text("rope.scaling.type", "linear");
    out.Float("rope.scaling.factor", config.GetDouble(absl::StrCat(rope->where, ".factor")));
  } else if (rope->type != "default" && (rope->type != "llama3" || architecture != "llama")) {
    out.Keep(Unimplemented(config.where(), ": key \"", rope->where, "\" has rope_type \"",
                           rope->type, "\", expected default, linear or, in a Llama, llama3"));
  }
  return std::move(out).Build();
}

absl::StatusOr<HfConfig> Gpt2Config(const GgufMetadata& metadata, const HfConfigFacts& facts) {
  ConfigBuilder out(metadata, "gpt2", facts);
  const int64_t width = out.Int("embedding_length");
  const int64_t inner = out.Int("feed_forward_length");
  const int64_t context = out.Int("context_length");
  out["architectures"] = {"GPT2LMHeadModel"};
  out["activation_function"] = "gelu_new";
  out["n_positions"] = context;
  out["n_ctx"] = context;
  out["n_embd"] = width;
  out["n_layer"] = out.Int("block_count");
  out["n_head"] = out.Int("attention.head_count");
  // transformers writes null for the usual width.
  out["n_inner"] = inner / 4 == width && inner % 4 == 0 ? Json(nullptr) : Json(inner);
  out["layer_norm_epsilon"] = out.Double("attention.layer_norm_epsilon");
  // GGUF stores no dropout; transformers' default of 0.1 would be a guess.
  for (const char* dropout : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) out[dropout] = 0.0;
  return std::move(out).Build();
}

void SetRope(const HfConfigFacts& facts, ConfigBuilder& out) {
  if (facts.rope) {
    out.RefuseScaledPositions(" beside rope_freqs.weight");
    out["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", ShortDecimal(facts.rope->factor)},
        {"low_freq_factor", facts.rope->low_freq_factor},
        {"high_freq_factor", facts.rope->high_freq_factor},
        {"original_max_position_embeddings", static_cast<int64_t>(facts.rope->original_context)}};
  } else {
    out.SetLinearRope();
  }
}

void SetExperts(ConfigBuilder& out) {
  out["model_type"] = "qwen3_moe";
  out["num_experts"] = out.Int("expert_count");
  out["num_experts_per_tok"] = out.Int("expert_used_count");
  out["moe_intermediate_size"] = out.Int("expert_feed_forward_length");
  out["norm_topk_prob"] = true;
  out["decoder_sparse_step"] = 1;
  out["mlp_only_layers"] = Json::array();
}

absl::StatusOr<HfConfig> LlamaConfig(const GgufMetadata& metadata, const LlamaLike& family,
                                     const HfConfigFacts& facts) {
  ConfigBuilder out(metadata, family.architecture, facts);
  const int64_t heads = out.Int("attention.head_count");
  const int64_t width = out.Int("embedding_length");
  const int64_t head_dim = out.IntOr("attention.key_length", heads > 0 ? width / heads : 0);
  const bool phi = family.architecture == kPhi;
  const int64_t rotated = out.IntOr("rope.dimension_count", head_dim);
  if (phi && rotated > 0 && rotated < head_dim) {
    out["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(head_dim);
  } else if (rotated != head_dim) {
    out.Refuse("rope.dimension_count", absl::StrCat(rotated),
               absl::StrCat(head_dim, ", the whole of a head"));
  }
  out["architectures"] = {family.transformers_name};
  const int64_t experts = out.IntOr("expert_count", 0);
  const bool mixtral = family.architecture == "llama" && experts > 0;
  if (family.architecture == kMixture) {
    SetExperts(out);
  } else if (mixtral) {
    out["model_type"] = "mixtral";
    out["architectures"] = {"MixtralForCausalLM"};
    out["num_local_experts"] = experts;
    out["num_experts_per_tok"] = out.Int("expert_used_count");
  } else if (experts != 0) {
    out.Refuse("expert_count", absl::StrCat(experts), "0: this mixture of experts has no mapping");
  }
  const int64_t window = out.IntOr(kSlidingWindow, 0);
  if (window > 0 && mixtral) {
    out.Refuse(kSlidingWindow, absl::StrCat(window), "none in a mixture of experts");
  } else if (window > 0 && family.architecture == "llama") {
    out["model_type"] = "mistral";
    out["architectures"] = {"MistralForCausalLM"};
    out["sliding_window"] = window;
  } else if (window > 0 && phi) {
    out["sliding_window"] = window;
  }
  out["hidden_act"] = "silu";
  out["intermediate_size"] = out.Int("feed_forward_length");
  if (!phi) out["head_dim"] = head_dim;  // transformers has no such key there
  out.SetSizes();
  out["rope_theta"] = out.DoubleOr("rope.freq_base", 10000.0);
  if (family.says_attention_bias) out["attention_bias"] = facts.attention_bias;
  if (family.says_mlp_bias) out["mlp_bias"] = facts.mlp_bias;
  SetRope(facts, out);
  return std::move(out).Build();
}

}  // namespace

absl::StatusOr<GgufMetadata> GgufMetadataOf(const HfConfig& config) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string type, config.ModelType());
  const absl::string_view architecture = GgufArchitectureOf(type);
  ZEROTH_RETURN_IF_ERROR_WITH(CheckGgufArchitecture(architecture), config.where());
  if (architecture == "gemma2") return Gemma2Metadata(config);
  if (architecture == "gemma3") return Gemma3Metadata(config);
  if (architecture == "gpt-oss") return GptOssMetadata(config);
  if (architecture == kQwen35) return Qwen35Metadata(config);
  return type == "gpt2" ? Gpt2Metadata(config) : LlamaMetadata(config, architecture);
}

absl::StatusOr<HfConfig> HfConfigOf(const GgufMetadata& metadata, const HfConfigFacts& facts) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string architecture,
                          metadata.GetString("general.architecture"));
  ZEROTH_RETURN_IF_ERROR_WITH(CheckGgufArchitecture(architecture), metadata.where());
  if (architecture == "gpt2") return Gpt2Config(metadata, facts);
  if (architecture == "gemma2") return Gemma2Config(metadata, facts);
  if (architecture == "gemma3") return Gemma3Config(metadata, facts);
  if (architecture == "gpt-oss") return GptOssConfig(metadata, facts);
  if (architecture == kQwen35) return Qwen35Config(metadata, facts);
  ZEROTH_ASSIGN_OR_RETURN(const LlamaLike* const family, FindLlamaLike(architecture));
  return LlamaConfig(metadata, *family, facts);
}

absl::StatusOr<GgufDivision> GgufDivisionOf(const GgufMetadata& metadata) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string architecture,
                          metadata.GetString("general.architecture"));
  const auto key = [&](absl::string_view name) { return absl::StrCat(architecture, ".", name); };
  GgufDivision division;
  ZEROTH_ASSIGN_OR_RETURN(division.query_heads, metadata.GetInt(key("attention.head_count")));
  ZEROTH_ASSIGN_OR_RETURN(division.key_heads,
                          metadata.GetIntOr(key("attention.head_count_kv"), division.query_heads));
  ZEROTH_ASSIGN_OR_RETURN(division.experts, metadata.GetIntOr(key("expert_count"), 0));
  if (architecture == kQwen35) {
    ZEROTH_ASSIGN_OR_RETURN(division.linear, Qwen35Division(metadata));
  }
  return division;
}

absl::StatusOr<GgufBlockCounts> GgufBlockCountsOf(const GgufMetadata& metadata) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string architecture,
                          metadata.GetString("general.architecture"));
  const auto key = [&](absl::string_view name) { return absl::StrCat(architecture, ".", name); };
  GgufBlockCounts counts;
  ZEROTH_ASSIGN_OR_RETURN(counts.blocks, metadata.GetInt(key("block_count")));
  counts.with_mtp = counts.blocks;
  if (architecture != kQwen35) return counts;
  const std::string interval = key("full_attention_interval");
  ZEROTH_ASSIGN_OR_RETURN(counts.full_interval, metadata.GetIntOr(interval, 4));
  if (counts.full_interval < 1) {
    return InvalidArgument(metadata.where(), ": key \"", interval, "\" is ", counts.full_interval,
                           ", expected at least 1");
  }
  const std::string mtp = key("nextn_predict_layers");
  ZEROTH_ASSIGN_OR_RETURN(const int64_t mtp_blocks, metadata.GetIntOr(mtp, 0));
  if (mtp_blocks < 0 || mtp_blocks >= counts.blocks) {
    return InvalidArgument(metadata.where(), ": key \"", mtp, "\" is ", mtp_blocks,
                           ", expected 0 or more, and fewer than the ", counts.blocks,
                           " blocks of \"", key("block_count"), "\"");
  }
  counts.blocks -= mtp_blocks;
  return counts;
}

}  // namespace zeroth
