// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// config.json in llama.cpp's words: "gpt2.block_count" is "n_layer", and so on. The tokenizer's
// part of the metadata is gguf_tokenizer.h's.

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_CONFIG_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/kernels/rope/rope.h"

namespace zeroth {

// Llama 3.1's stretching of rotary embeddings to longer contexts is a RopeSpec of type kLlama3, of
// which Hugging Face stores the four numbers, and GGUF what they do to each frequency.
//
// What each of the head_dim / 2 frequencies is divided by, the highest frequency first.
std::vector<float> Llama3RopeFactors(const RopeSpec& rope, int64_t head_dim);
// The numbers behind `factors`, if they are those of a published Llama 3 model in all but `factor`
// (every one of them has the same others). Unimplemented otherwise.
absl::StatusOr<RopeSpec> RecoverLlama3Rope(absl::Span<const float> factors, double theta);

// general.architecture and the architecture's own keys. InvalidArgument, naming file and key, for a
// config that is incomplete or contradicts itself; Unimplemented for a family without a mapping and
// for what llama.cpp would compute otherwise than the config says (other activations, rotary
// scaling that it has no key for): such a file would load and answer nonsense.
absl::StatusOr<GgufMetadata> GgufMetadataOf(const HfConfig& config);

// Where a Llama config says how rotary embeddings are scaled, and which way; newer files say
// "rope_parameters", and put the base there, too.
struct HfRope {
  std::string where;  // "rope_scaling" or "rope_parameters"; empty if neither is there
  std::string type = "default";
  double theta = 10000.0;
};

absl::StatusOr<HfRope> HfRopeOf(const HfConfig& config);

// The rotary scaling that a config asks for with rope_type "llama3"; nothing if it asks for none.
// GGUF has no keys for it, but a tensor (Llama3RopeFactors).
absl::StatusOr<std::optional<RopeSpec>> Llama3RopeOf(const HfConfig& config);

// What a config.json needs beyond the metadata.
struct HfConfigFacts {
  // Rows of the token embedding: the key, where a file has it, may count the tokens only.
  int64_t vocab_size = 0;
  // Whether the file has no head of its own.
  bool tie_word_embeddings = false;
  // "float32", ...: transformers loads in this type.
  std::string torch_dtype = "float32";
  std::optional<RopeSpec> rope;
  // Whether Llama's projections have biases, which is for the file's tensors to say.
  bool attention_bias = false;
  bool mlp_bias = false;
};

// The inverse. Unimplemented for mixtures of experts other than Qwen3-MoE and for rotary scaling
// other than linear and Llama 3's.
absl::StatusOr<HfConfig> HfConfigOf(const GgufMetadata& metadata, const HfConfigFacts& facts);

// What the rows of a model's matrices divide into.
struct GgufDivision {
  int64_t query_heads = 1;
  int64_t key_heads = 1;
  // Whose matrices are stacked in each block; 0 in a model without experts.
  int64_t experts = 0;
};
absl::StatusOr<GgufDivision> GgufDivisionOf(const GgufMetadata& metadata);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_CONFIG_H_
