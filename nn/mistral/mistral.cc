// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Mistral 7B (Jiang et al., 2023): Llama whose tokens attend to a sliding window, with the names of
// Hugging Face's MistralForCausalLM. Later versions have no window: their files say null, since a
// file without the key has version 0.1's.

#include "zeroth/nn/decoder/decoder_family.h"

namespace zeroth {
namespace {

DecoderFamily Mistral() {
  DecoderFamily family = LlamaLikeFamily("mistral", "MistralForCausalLM");
  family.base.max_positions = 131072;
  family.base.kv_heads = 8;
  family.base.window = 4096;
  family.keys.push_back({"sliding_window", &DecoderConfig::window, false, /*null_is_zero=*/true});
  family.presets = {{"mistral_7b", 32000, 32768, 4096, 32, 32, 8, 14336, 10000.0, 1e-5}};
  return family;
}

const DecoderRegistration registration(Mistral());

}  // namespace
}  // namespace zeroth
