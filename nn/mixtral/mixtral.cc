// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Mixtral (Jiang et al., "Mixtral of experts", 2024): Mistral without a window, with a mixture of
// experts instead of every MLP, with the names of Hugging Face's MixtralForCausalLM, which stores
// experts one by one.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Mixtral() {
  DecoderFamily family = LlamaLikeFamily("mixtral", "MixtralForCausalLM");
  DecoderConfig& base = family.base;
  base.names.mlp = "block_sparse_moe";
  base.names.router = "gate";
  base.names.experts = "experts";
  base.names.mlp_in = {"w1", "w3"};
  base.names.mlp_out = "w2";
  base.max_positions = 131072;
  base.kv_heads = 8;
  base.norm_eps = 1e-5;
  base.rope.theta = 1e6;
  base.experts = 8;
  base.experts_per_token = 2;
  // A softmax over the chosen experts equals one over all experts, divided by the sum over the
  // chosen.
  base.normalize_expert_weights = true;
  base.balance_coefficient = 0.001;
  family.keys.insert(family.keys.end(),
                     {{"intermediate_size", &DecoderConfig::expert_hidden, /*required=*/true},
                      {"num_local_experts", &DecoderConfig::experts},
                      {"num_experts_per_tok", &DecoderConfig::experts_per_token},
                      {"output_router_logits", &DecoderConfig::balances_experts},
                      {"router_aux_loss_coef", &DecoderConfig::balance_coefficient}});
  family.fixed.insert(family.fixed.end(),
                      {{"sliding_window", nullptr}, {"router_jitter_noise", 0.0}});
  const nlohmann::json more = {{"intermediate_size", 14336}};
  family.presets = {{"mixtral_8x7b", 32000, 32768, 4096, 32, 32, 8, 14336, 1e6, 1e-5, more}};
  return family;
}

const DecoderRegistration registration(Mixtral());

}  // namespace
}  // namespace zeroth
