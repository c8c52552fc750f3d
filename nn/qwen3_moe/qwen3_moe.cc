// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Qwen3-MoE (Yang et al., "Qwen3 technical report", 2025): Qwen3 with a mixture of experts instead
// of most MLPs, with the names of Hugging Face's Qwen3MoeForCausalLM, which stores experts one by
// one.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Qwen3Moe() {
  DecoderFamily family = LlamaLikeFamily("qwen3_moe", "Qwen3MoeForCausalLM");
  DecoderConfig& base = family.base;
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.names.router = "gate";
  base.names.experts = "experts";
  base.max_positions = 32768;
  base.kv_heads = 4;
  base.experts = 128;
  base.experts_per_token = 8;
  base.expert_hidden = 768;
  base.balance_coefficient = 0.001;
  family.keys.insert(family.keys.end(),
                     {{"attention_bias", &DecoderConfig::qkv_bias},
                      {"attention_bias", &DecoderConfig::attention_out_bias},
                      // Two names of one number, the second of newer files.
                      {"num_experts", &DecoderConfig::experts},
                      {"num_local_experts", &DecoderConfig::experts},
                      {"num_experts_per_tok", &DecoderConfig::experts_per_token},
                      {"moe_intermediate_size", &DecoderConfig::expert_hidden},
                      {"norm_topk_prob", &DecoderConfig::normalize_expert_weights},
                      {"output_router_logits", &DecoderConfig::balances_experts},
                      {"router_aux_loss_coef", &DecoderConfig::balance_coefficient},
                      {"decoder_sparse_step", &DecoderConfig::sparse_step},
                      {"mlp_only_layers", &DecoderConfig::dense_layers}});
  family.fixed.insert(family.fixed.end(), {{"use_sliding_window", false},
                                           {"sliding_window", nullptr, FixedKey::Use::kUnused},
                                           {"max_window_layers", nullptr, FixedKey::Use::kUnused}});
  const nlohmann::json more = {{"head_dim", 128}, {"norm_topk_prob", true}};
  family.presets = {{"qwen3_30b_a3b", 151936, 40960, 2048, 48, 32, 4, 6144, 1e6, 1e-6, more}};
  return family;
}

const DecoderRegistration registration(Qwen3Moe());

}  // namespace
}  // namespace zeroth
