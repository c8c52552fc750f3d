// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Maps tensor names of Hugging Face models to those of llama.cpp models and back.

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_NAMES_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_NAMES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// How a tensor's layout in GGUF differs from Hugging Face's.
enum class GgufLayout {
  kSame,
  // GPT-2's linear layers are [in, out] in Hugging Face and [out, in] in GGUF.
  kTransposed,
  // Llama's query and key projections: the rows of each query head, or each key-value head, are in
  // another order (Relayout::kInterleaveHalves converts to GGUF).
  kQueryRows,
  kKeyRows,
};

struct GgufTensorName {
  std::string name;
  GgufLayout layout = GgufLayout::kSame;
  // llama.cpp wants this tensor in F32, whatever the dtype of the others.
  bool always_float32 = false;
  // Hugging Face has a tensor for each expert; GGUF stacks those of a block. This is the expert of
  // Hugging Face's tensor.
  std::optional<int64_t> expert;
};

// OK if the names of this general.architecture are known: "gpt2", "llama", "qwen2", "qwen3",
// "qwen3moe", "olmo2". Otherwise Unimplemented, with this list.
absl::Status CheckGgufArchitecture(absl::string_view architecture);
// Returns GGUF's architecture for a model_type of Hugging Face. The names are the same, except that
// a Mistral is a Llama, and "qwen3_moe" is "qwen3moe".
absl::string_view GgufArchitectureOf(absl::string_view model_type);

// Returns the GGUF name of a Hugging Face tensor. Empty for tensors that hold no parameters (masks
// and frequencies in old files). GPT-2's leading "transformer." may be absent, as in OpenAI's own
// files. InvalidArgument for a name that the architecture does not have.
absl::StatusOr<std::optional<GgufTensorName>> GgufNameOf(absl::string_view architecture,
                                                         absl::string_view hf_name);

// The inverse: `name` of the result is Hugging Face's. Empty for "rope_freqs.weight", which
// config.json expresses otherwise. `expert` selects a tensor where GGUF stacks those of all
// experts.
absl::StatusOr<std::optional<GgufTensorName>> HfNameOf(absl::string_view architecture,
                                                       absl::string_view gguf_name,
                                                       int64_t expert = 0);

// Returns the GGUF name of the first weight that a model of `blocks` blocks needs and `present`
// lacks; empty if the model is complete. A head that is `tied` to the embedding needs no weight.
absl::StatusOr<std::string> MissingGgufTensor(absl::string_view architecture, int64_t blocks,
                                              bool tied, const std::set<std::string>& present);

inline constexpr char kGgufRopeFactors[] = "rope_freqs.weight";

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_NAMES_H_
