// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which tensor of a Hugging Face model is which tensor of a llama.cpp model. Names only: nothing
// here knows what a model computes.

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

// How a tensor lies in GGUF, seen from Hugging Face.
enum class GgufLayout {
  kSame,
  // GPT-2's linear layers are [in, out] in Hugging Face and [out, in] in GGUF.
  kTransposed,
  // Llama's query and key projections: the rows of each query head, or each key-value head, pair up
  // differently (Relayout::kInterleaveHalves leads to GGUF).
  kQueryRows,
  kKeyRows,
};

struct GgufTensorName {
  std::string name;
  GgufLayout layout = GgufLayout::kSame;
  // llama.cpp wants this one in F32 whatever the others are.
  bool always_float32 = false;
  // Hugging Face has a tensor for each expert, GGUF one for all of a block, stacked: which of them
  // Hugging Face's tensor is.
  std::optional<int64_t> expert;
};

// Families whose names are known, as general.architecture says them: "gpt2", "llama", "qwen2",
// "qwen3", "qwen3moe", "olmo2". Unimplemented lists them.
absl::Status CheckGgufArchitecture(absl::string_view architecture);
// What GGUF calls a model_type of Hugging Face: the same, but for a Mistral, which is a Llama
// there, and for "qwen3_moe".
absl::string_view GgufArchitectureOf(absl::string_view model_type);

// The GGUF name of a Hugging Face tensor; nothing for those that hold no parameters (masks and
// frequencies that old files store). GPT-2's leading "transformer." may be absent, as in OpenAI's
// own files. InvalidArgument for a name that the architecture does not have.
absl::StatusOr<std::optional<GgufTensorName>> GgufNameOf(absl::string_view architecture,
                                                         absl::string_view hf_name);

// The inverse: `name` is Hugging Face's. Nothing for "rope_freqs.weight", which config.json says
// in another way. `expert`: whose tensor, where GGUF stacks those of all.
absl::StatusOr<std::optional<GgufTensorName>> HfNameOf(absl::string_view architecture,
                                                       absl::string_view gguf_name,
                                                       int64_t expert = 0);

// The first weight, by its GGUF name, that a model of `blocks` blocks needs and that `present`
// lacks; empty if it is complete. A model whose head is `tied` to the embedding needs none of its
// own.
absl::StatusOr<std::string> MissingGgufTensor(absl::string_view architecture, int64_t blocks,
                                              bool tied, const std::set<std::string>& present);

inline constexpr char kGgufRopeFactors[] = "rope_freqs.weight";

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_NAMES_H_
