// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Translates config.json into llama.cpp's metadata and back: "n_layer" is "gpt2.block_count", and
// so on. gguf_tokenizer.h has the tokenizer's part of the metadata.

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

// Llama 3.1 stretches rotary embeddings to longer contexts (a RopeSpec of type kLlama3). Hugging
// Face stores its four numbers, and GGUF the divisor of each frequency.
//
// Returns the divisors of the head_dim / 2 frequencies, the highest frequency first.
std::vector<float> Llama3RopeFactors(const RopeSpec& rope, int64_t head_dim);
// Recovers the numbers from the divisors. All published Llama 3 models differ in `factor` alone;
// Unimplemented for divisors of other models.
absl::StatusOr<RopeSpec> RecoverLlama3Rope(absl::Span<const float> factors, double theta);

// Returns general.architecture and the architecture's own keys. InvalidArgument, naming file and
// key, for a config that is incomplete or contradicts itself. Unimplemented for a family without a
// mapping, and for a config that llama.cpp would not follow (other activations, rotary scaling that
// it has no key for): such a file would load and answer nonsense.
absl::StatusOr<GgufMetadata> GgufMetadataOf(const HfConfig& config);

// How a Llama config scales rotary embeddings. Newer files have "rope_parameters", which includes
// the base.
struct HfRope {
  std::string where;  // "rope_scaling" or "rope_parameters"; empty if neither is there
  std::string type = "default";
  double theta = 10000.0;
};

// InvalidArgument if both objects are there and say different things.
absl::StatusOr<HfRope> HfRopeOf(const HfConfig& config);

// The rotary scaling of a config with rope_type "llama3"; empty for other configs. GGUF stores it
// as a tensor (Llama3RopeFactors), not under keys.
absl::StatusOr<std::optional<RopeSpec>> Llama3RopeOf(const HfConfig& config);

// What a config.json needs beside the metadata.
struct HfConfigFacts {
  // Rows of the token embedding. The metadata's key, if present, may count the tokens only.
  int64_t vocab_size = 0;
  // True if the file has no head of its own.
  bool tie_word_embeddings = false;
  // The type in which transformers loads the model: "float32", ...
  std::string torch_dtype = "float32";
  std::optional<RopeSpec> rope;
  // Whether Llama's projections have biases, as the file's tensors show.
  bool attention_bias = false;
  bool mlp_bias = false;
};

// The inverse of GgufMetadataOf. Unimplemented for mixtures of experts other than Qwen3-MoE and for
// rotary scaling other than linear and Llama 3's.
absl::StatusOr<HfConfig> HfConfigOf(const GgufMetadata& metadata, const HfConfigFacts& facts);

// How the rows of a model's matrices are divided.
struct GgufDivision {
  int64_t query_heads = 1;
  int64_t key_heads = 1;
  // Number of experts whose matrices are stacked in each block; 0 in a model without experts.
  int64_t experts = 0;
};
absl::StatusOr<GgufDivision> GgufDivisionOf(const GgufMetadata& metadata);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_CONFIG_H_
