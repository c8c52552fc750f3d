// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// dots.llm1 (Huo et al., "dots.llm1 technical report", 2025): the attention of Qwen3 and the
// experts of DeepSeek-V3 (scores by sigmoid, a bias that balances them, shared experts), with the
// names of Hugging Face's Dots1ForCausalLM, which stores experts one by one.

#include <optional>

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Dots1() {
  DecoderFamily family = LlamaLikeFamily("dots1", "Dots1ForCausalLM");
  DecoderConfig& base = family.base;
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.names.router = "gate";
  base.names.experts = "experts";
  base.names.shared_expert = "shared_experts";
  base.kv_heads = 32;
  base.expert_hidden = 1408;
  base.expert_scores = ExpertScores::kSigmoid;
  base.router_bias = true;
  family.classifier = std::nullopt;
  family.keys.insert(family.keys.end(),
                     {{"attention_bias", &DecoderConfig::qkv_bias},
                      {"attention_bias", &DecoderConfig::attention_out_bias},
                      {"n_routed_experts", &DecoderConfig::experts, /*required=*/true},
                      {"n_shared_experts", &DecoderConfig::shared_experts, /*required=*/true},
                      {"num_experts_per_tok", &DecoderConfig::experts_per_token, /*required=*/true},
                      {"moe_intermediate_size", &DecoderConfig::expert_hidden},
                      {"norm_topk_prob", &DecoderConfig::normalize_expert_weights},
                      {"routed_scaling_factor", &DecoderConfig::expert_weight_scale},
                      {.name = "first_k_dense_replace",
                       .field = &DecoderConfig::first_dense_layers,
                       .may_be_zero = true}});
  using Use = FixedKey::Use;
  // Experts are not chosen by groups. Files of models without windows may have transformers'
  // default of 4096 as their window, which layer_types, or too few layers, then leave unused.
  // transformers ignores the other keys.
  family.fixed.insert(family.fixed.end(), {{"n_group", 1},
                                           {"topk_group", 1},
                                           {"sliding_window", nullptr, Use::kNoWindow},
                                           {"max_window_layers", nullptr, Use::kUnused},
                                           {"moe_layer_freq", nullptr, Use::kUnused},
                                           {"scoring_func", nullptr, Use::kUnused},
                                           {"topk_method", nullptr, Use::kUnused}});
  return family;
}

const DecoderRegistration registration(Dots1());

}  // namespace
}  // namespace zeroth
