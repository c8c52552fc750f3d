// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// gpt-oss (OpenAI, "gpt-oss-120b & gpt-oss-20b model card", 2025): windows in every other layer,
// from the first on; a sink in each head; biases on every projection; and experts with a clamped
// SwiGLU, weighted by a softmax over the chosen ones. The names are those of Hugging Face's
// GptOssForCausalLM, but each expert has separate parameters, which that model stacks.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily GptOss() {
  DecoderFamily family = LlamaLikeFamily("gpt_oss", "GptOssForCausalLM");
  DecoderConfig& base = family.base;
  base.names.router = "router";
  base.names.experts = "experts";
  base.max_positions = 131072;
  base.kv_heads = 8;
  base.head_dim = 64;
  base.norm_eps = 1e-5;
  base.rope.type = RopeSpec::Type::kYarn;
  base.rope.theta = 150000;
  base.rope.factor = 32;
  base.rope.original_context = 4096;
  base.rope.truncate = false;
  base.rope.attention_factor = 1.3465735902799727;  // 0.1 ln(32) + 1
  base.attention_sinks = true;
  base.mixes_windows = true;
  base.window = 128;
  base.window_pattern = 2;
  base.one_rope = true;
  base.qkv_bias = true;
  base.attention_out_bias = true;
  base.experts = 128;
  base.experts_per_token = 4;
  base.moe_biases = true;
  base.swiglu_limit = 7;
  // A softmax over the chosen experts equals one over all experts, divided by the sum over the
  // chosen.
  base.normalize_expert_weights = true;
  base.balance_coefficient = 0.001;
  family.keys.insert(family.keys.end(),
                     {{"attention_bias", &DecoderConfig::qkv_bias},
                      {"attention_bias", &DecoderConfig::attention_out_bias},
                      {"sliding_window", &DecoderConfig::window, false, /*null_is_zero=*/true},
                      {"intermediate_size", &DecoderConfig::expert_hidden, /*required=*/true},
                      {"num_local_experts", &DecoderConfig::experts},
                      {"num_experts_per_tok", &DecoderConfig::experts_per_token},
                      {"output_router_logits", &DecoderConfig::balances_experts},
                      {"router_aux_loss_coef", &DecoderConfig::balance_coefficient}});
  using Use = FixedKey::Use;
  // transformers does not read the last two, which published files have.
  family.fixed.insert(family.fixed.end(), {{"swiglu_limit", 7.0},
                                           {"swiglu_alpha", 1.702, Use::kRead},
                                           {"experts_per_token", nullptr, Use::kUnused},
                                           {"initial_context_length", nullptr, Use::kUnused}});
  nlohmann::json more = {{"head_dim", 64},
                         {"intermediate_size", 2880},
                         {"rope_scaling",
                          {{"rope_type", "yarn"},
                           {"factor", 32.0},
                           {"beta_fast", 32.0},
                           {"beta_slow", 1.0},
                           {"truncate", false},
                           {"original_max_position_embeddings", 4096}}}};
  family.presets = {{"gpt_oss_120b", 201088, 131072, 2880, 36, 64, 8, 2880, 150000, 1e-5, more}};
  more["num_local_experts"] = 32;
  family.presets.push_back(
      {"gpt_oss_20b", 201088, 131072, 2880, 24, 64, 8, 2880, 150000, 1e-5, more});
  return family;
}

const DecoderRegistration registration(GptOss());

}  // namespace
}  // namespace zeroth
