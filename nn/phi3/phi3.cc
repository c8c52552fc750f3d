// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Phi-3 (Abdin et al., "Phi-3 technical report", 2024) and Phi-4: Llama with one matrix for
// queries, keys and values and one for gate and up. Phi-4-mini rotates three quarters of a head.
// The names are those of Hugging Face's Phi3ForCausalLM.

#include <vector>

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Phi3() {
  DecoderFamily family = LlamaLikeFamily("phi3", "Phi3ForCausalLM");
  DecoderConfig& base = family.base;
  base.names.qkv = {"qkv_proj"};
  base.names.mlp_in = {"gate_up_proj"};
  base.max_positions = 4096;
  base.norm_eps = 1e-5;
  base.rope_keys = RopeKeys::kPhi3;
  // transformers has no "head_dim" here.
  std::erase_if(family.keys, [](const ConfigKey& key) { return key.name == "head_dim"; });
  family.keys.push_back({"sliding_window", &DecoderConfig::window, false, /*null_is_zero=*/true});
  family.fixed.insert(family.fixed.end(),
                      {{"attention_bias", false, FixedKey::Use::kRead},
                       // An absent id is 32000 in transformers, whatever the vocabulary.
                       {"pad_token_id", nullptr, FixedKey::Use::kWrite},
                       // Keys of Phi-4-mini's published file that transformers does not read.
                       {"full_attn_mod", 1, FixedKey::Use::kRead},
                       {"interpolate_factor", 1, FixedKey::Use::kRead},
                       // Published models bring code that computes the same as transformers.
                       {"auto_map", nullptr, FixedKey::Use::kUnused}});
  const nlohmann::json mini = {{"sliding_window", 2047}};
  family.presets = {{"phi3_mini", 32064, 4096, 3072, 32, 32, 32, 8192, 1e4, 1e-5, mini},
                    {"phi4", 100352, 16384, 5120, 40, 40, 10, 17920, 250000.0, 1e-5}};
  return family;
}

const DecoderRegistration registration(Phi3());

}  // namespace
}  // namespace zeroth
