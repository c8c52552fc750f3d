// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Qwen2 and Qwen2.5 (Yang et al., "Qwen2.5 technical report", 2024): Llama with biases on queries,
// keys and values, with the names of Hugging Face's Qwen2ForCausalLM.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Qwen2() {
  DecoderFamily family = LlamaLikeFamily("qwen2", "Qwen2ForCausalLM");
  family.base.max_positions = 32768;
  family.base.kv_heads = 32;
  family.base.qkv_bias = true;
  AddQwenWindow(family);
  const nlohmann::json more = {{"tie_word_embeddings", true}};
  family.presets = {{"qwen25_0_5b", 151936, 32768, 896, 24, 14, 2, 4864, 1e6, 1e-6, more}};
  return family;
}

const DecoderRegistration registration(Qwen2());

}  // namespace
}  // namespace zeroth
