// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Llama (Touvron et al., 2023): RMS-norm, rotary positions, grouped-query attention, SwiGLU, with
// the parameter names and shapes of Hugging Face's LlamaForCausalLM: weights of linear layers are
// [out, in]. Versions 1 to 3.3 differ in sizes and in how rotary positions are scaled.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Llama() {
  DecoderFamily family = LlamaLikeFamily("llama", "LlamaForCausalLM");
  family.keys.insert(family.keys.end(), {{"attention_bias", &DecoderConfig::qkv_bias},
                                         {"attention_bias", &DecoderConfig::attention_out_bias},
                                         {"mlp_bias", &DecoderConfig::mlp_in_bias},
                                         {"mlp_bias", &DecoderConfig::mlp_out_bias}});
  const nlohmann::json llama32 = {{"head_dim", 64},
                                  {"tie_word_embeddings", true},
                                  {"rope_scaling",
                                   {{"rope_type", "llama3"},
                                    {"factor", 32.0},
                                    {"low_freq_factor", 1.0},
                                    {"high_freq_factor", 4.0},
                                    {"original_max_position_embeddings", 8192}}}};
  // 0.8 M parameters over bytes; TinyLlama's shape; then the published sizes.
  family.presets = {{"llama_tiny", 257, 256, 128, 4, 4, 2, 344},
                    {"llama_1b", 32000, 2048, 2048, 22, 32, 4, 5632},
                    {"llama32_1b", 128256, 131072, 2048, 16, 32, 8, 8192, 500000.0, 1e-5, llama32},
                    {"llama3_8b", 128256, 8192, 4096, 32, 32, 8, 14336, 500000.0},
                    {"llama3_70b", 128256, 8192, 8192, 80, 64, 8, 28672, 500000.0}};
  return family;
}

const DecoderRegistration registration(Llama());

}  // namespace
}  // namespace zeroth
