// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Llama (Touvron et al., 2023): RMS-norm, rotary positions, grouped-query attention, SwiGLU, with
// the parameter names and shapes of Hugging Face's LlamaForCausalLM: weights of linear layers are
// [out, in].

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Llama() {
  using Use = FixedKey::Use;
  DecoderFamily family;
  family.model_type = "llama";
  DecoderConfig& base = family.base;
  base.names = {.embedding = "model.embed_tokens",
                .blocks = "model.layers",
                .norm = "model.norm",
                .attention_norm = "input_layernorm",
                .attention = "self_attn",
                .mlp_norm = "post_attention_layernorm",
                .mlp = "mlp",
                .qkv = {"q_proj", "k_proj", "v_proj"},
                .attention_out = "o_proj",
                .mlp_in = {"gate_proj", "up_proj"},
                .mlp_out = "down_proj"};
  base.max_positions = 2048;
  base.norm_eps = 1e-6;
  family.keys = {{"vocab_size", &DecoderConfig::vocab_size, /*required=*/true},
                 {"max_position_embeddings", &DecoderConfig::max_positions},
                 {"hidden_size", &DecoderConfig::dim, /*required=*/true},
                 {"intermediate_size", &DecoderConfig::mlp_hidden, /*required=*/true},
                 {"num_hidden_layers", &DecoderConfig::layers, /*required=*/true},
                 {"num_attention_heads", &DecoderConfig::heads, /*required=*/true},
                 {"num_key_value_heads", &DecoderConfig::kv_heads},
                 {"head_dim", &DecoderConfig::head_dim},
                 {"rms_norm_eps", &DecoderConfig::norm_eps},
                 {"rope_theta", &DecoderConfig::rope_theta},
                 {"initializer_range", &DecoderConfig::init_std},
                 {"tie_word_embeddings", &DecoderConfig::tied_head},
                 {"attention_bias", &DecoderConfig::qkv_bias},
                 {"attention_bias", &DecoderConfig::attention_out_bias},
                 {"mlp_bias", &DecoderConfig::mlp_in_bias},
                 {"mlp_bias", &DecoderConfig::mlp_out_bias}};
  family.fixed = {{"architectures", {"LlamaForCausalLM"}, Use::kWrite},
                  {"hidden_act", "silu"},
                  {"attention_dropout", 0.0, Use::kWrite},
                  {"torch_dtype", "float32", Use::kWrite}};
  // 0.8 M parameters over bytes; TinyLlama's shape; Llama 3's.
  family.presets = {{"llama_tiny", 257, 256, 128, 4, 4, 2, 344},
                    {"llama_1b", 32000, 2048, 2048, 22, 32, 4, 5632},
                    {"llama_8b", 128256, 8192, 4096, 32, 32, 8, 14336, 500000.0}};
  return family;
}

const DecoderRegistration registration(Llama());

}  // namespace
}  // namespace zeroth
