// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Qwen3 (Yang et al., "Qwen3 technical report", 2025): Llama with norms of query and key heads and
// an independent head size, with the names of Hugging Face's Qwen3ForCausalLM.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Qwen3() {
  DecoderFamily family = LlamaLikeFamily("qwen3", "Qwen3ForCausalLM");
  family.base.names.q_norm = "q_norm";
  family.base.names.k_norm = "k_norm";
  family.base.max_positions = 32768;
  family.base.kv_heads = 32;
  family.base.head_dim = 128;
  family.keys.insert(family.keys.end(), {{"attention_bias", &DecoderConfig::qkv_bias},
                                         {"attention_bias", &DecoderConfig::attention_out_bias}});
  AddQwenWindow(family);
  const nlohmann::json more = {{"tie_word_embeddings", true}};
  family.presets = {{"qwen3_0_6b", 151936, 40960, 1024, 28, 16, 8, 3072, 1e6, 1e-6, more}};
  return family;
}

const DecoderRegistration registration(Qwen3());

}  // namespace
}  // namespace zeroth
