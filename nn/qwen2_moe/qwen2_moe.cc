// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Qwen2-MoE (Yang et al., "Qwen2 technical report", 2024), also of Qwen1.5: Qwen2 with a mixture of
// experts and a gated expert that all tokens share instead of most MLPs, with the names of Hugging
// Face's Qwen2MoeForCausalLM, which stores experts one by one.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Qwen2Moe() {
  DecoderFamily family = LlamaLikeFamily("qwen2_moe", "Qwen2MoeForCausalLM");
  DecoderConfig& base = family.base;
  base.names.router = "gate";
  base.names.experts = "experts";
  base.names.shared_expert = "shared_expert";
  base.names.shared_expert_gate = "shared_expert_gate";
  base.max_positions = 32768;
  base.qkv_bias = true;
  base.experts = 60;
  base.experts_per_token = 4;
  base.expert_hidden = 1408;
  base.shared_hidden = 5632;
  base.balance_coefficient = 0.001;
  family.keys.insert(family.keys.end(),
                     {{"qkv_bias", &DecoderConfig::qkv_bias},
                      {"num_experts", &DecoderConfig::experts},
                      {"num_experts_per_tok", &DecoderConfig::experts_per_token},
                      {"moe_intermediate_size", &DecoderConfig::expert_hidden},
                      {"shared_expert_intermediate_size", &DecoderConfig::shared_hidden},
                      {"norm_topk_prob", &DecoderConfig::normalize_expert_weights},
                      {"output_router_logits", &DecoderConfig::balances_experts},
                      {"router_aux_loss_coef", &DecoderConfig::balance_coefficient},
                      {"decoder_sparse_step", &DecoderConfig::sparse_step},
                      {"mlp_only_layers", &DecoderConfig::dense_layers}});
  family.fixed.insert(family.fixed.end(), {{"use_sliding_window", false},
                                           {"sliding_window", nullptr, FixedKey::Use::kUnused},
                                           {"max_window_layers", nullptr, FixedKey::Use::kUnused}});
  return family;
}

const DecoderRegistration registration(Qwen2Moe());

}  // namespace
}  // namespace zeroth
