// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// config.json in llama.cpp's words: "gpt2.block_count" is "n_layer", and so on. The tokenizer's
// part of the metadata is gguf_tokenizer.h's.

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_CONFIG_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/gguf/gguf_rope.h"
#include "zeroth/checkpoint/hf_config.h"

namespace zeroth {

// general.architecture and the architecture's own keys. InvalidArgument, naming file and key, for a
// config that is incomplete or contradicts itself; Unimplemented for a family without a mapping and
// for what llama.cpp would compute otherwise than the config says (other activations, rotary
// scaling that it has no key for): such a file would load and answer nonsense.
absl::StatusOr<GgufMetadata> GgufMetadataOf(const HfConfig& config);

// The rotary scaling that a config asks for with rope_type "llama3"; nothing if it asks for none.
// GGUF has no keys for it, but a tensor (gguf_rope.h).
absl::StatusOr<std::optional<Llama3Rope>> Llama3RopeOf(const HfConfig& config);

// What a config.json needs beyond the metadata.
struct HfConfigFacts {
  // Rows of the token embedding: the key, where a file has it, may count the tokens only.
  int64_t vocab_size = 0;
  // Whether the file has no head of its own.
  bool tie_word_embeddings = false;
  // "float32", ...: transformers loads in this type.
  std::string torch_dtype = "float32";
  std::optional<Llama3Rope> rope;
  // Whether Llama's projections have biases, which is for the file's tensors to say.
  bool attention_bias = false;
  bool mlp_bias = false;
};

// The inverse. Unimplemented for mixtures of experts and for rotary scaling other than linear and
// Llama 3's.
absl::StatusOr<HfConfig> HfConfigOf(const GgufMetadata& metadata, const HfConfigFacts& facts);

// Attention heads that query and key rows divide into.
struct GgufHeads {
  int64_t query = 1;
  int64_t key = 1;
};
absl::StatusOr<GgufHeads> GgufHeadsOf(const GgufMetadata& metadata);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_CONFIG_H_
