// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// GPT-2 (Radford et al., "Language models are unsupervised multitask learners", 2019), with the
// parameter names and shapes of Hugging Face's GPT2LMHeadModel: weights of linear layers are [in,
// out], the head is tied to the embedding.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Gpt2() {
  using Use = FixedKey::Use;
  DecoderFamily family;
  family.model_type = "gpt2";
  DecoderConfig& base = family.base;
  base.names = {.embedding = "transformer.wte",
                .positions = "transformer.wpe",
                .blocks = "transformer.h",
                .norm = "transformer.ln_f",
                .attention_norm = "ln_1",
                .attention = "attn",
                .mlp_norm = "ln_2",
                .mlp = "mlp",
                .qkv = {"c_attn"},
                .attention_out = "c_proj",
                .mlp_in = {"c_fc"},
                .mlp_out = "c_proj"};
  base.max_positions = 1024;
  base.norm = NormKind::kLayer;
  base.rotary = false;
  base.activation = ActivationFunction::kGelu;
  base.gated = false;
  base.qkv_bias = base.attention_out_bias = base.mlp_in_bias = base.mlp_out_bias = true;
  base.layout = WeightLayout::kInOut;
  base.tied_head = true;
  base.scaled_residual_init = true;
  family.keys = {{"vocab_size", &DecoderConfig::vocab_size, /*required=*/true},
                 {"n_ctx", &DecoderConfig::max_positions},
                 {"n_positions", &DecoderConfig::max_positions},
                 {"n_embd", &DecoderConfig::dim, /*required=*/true},
                 {"n_layer", &DecoderConfig::layers, /*required=*/true},
                 {"n_head", &DecoderConfig::heads, /*required=*/true},
                 {"n_inner", &DecoderConfig::mlp_hidden},
                 {"layer_norm_epsilon", &DecoderConfig::norm_eps},
                 {"initializer_range", &DecoderConfig::init_std}};
  family.fixed = {{"architectures", {"GPT2LMHeadModel"}, Use::kWrite},
                  {"activation_function", "gelu_new"},
                  {"tie_word_embeddings", true},
                  {"scale_attn_weights", true, Use::kRead},
                  {"scale_attn_by_inverse_layer_idx", false, Use::kRead},
                  {"add_cross_attention", false, Use::kRead},
                  {"attn_pdrop", 0.0, Use::kWrite},
                  {"embd_pdrop", 0.0, Use::kWrite},
                  {"resid_pdrop", 0.0, Use::kWrite},
                  {"torch_dtype", "float32", Use::kWrite}};
  // 0.8 M parameters over bytes, for a first run; then the published sizes.
  family.presets = {{"gpt2_nano", 257, 256, 128, 4, 4},
                    {"gpt2_124m", 50257, 1024, 768, 12, 12},
                    {"gpt2_355m", 50257, 1024, 1024, 24, 16},
                    {"gpt2_774m", 50257, 1024, 1280, 36, 20},
                    {"gpt2_1558m", 50257, 1024, 1600, 48, 25}};
  return family;
}

const DecoderRegistration registration(Gpt2());

}  // namespace
}  // namespace zeroth
