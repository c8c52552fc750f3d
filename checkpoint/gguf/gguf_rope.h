// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Llama 3.1's stretching of rotary embeddings to longer contexts ("The Llama 3 Herd of Models",
// 2024). Hugging Face stores its four numbers, GGUF what they do to each frequency.

#ifndef ZEROTH_CHECKPOINT_GGUF_GGUF_ROPE_H_
#define ZEROTH_CHECKPOINT_GGUF_GGUF_ROPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace zeroth {

struct Llama3Rope {
  // Wave lengths above original_context / low_freq_factor are stretched by `factor`, those below
  // original_context / high_freq_factor not at all, those between by something between.
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_context = 8192;
};

// What each of the head_dim / 2 frequencies is divided by, the highest frequency first.
std::vector<float> Llama3RopeFactors(const Llama3Rope& rope, double theta, int64_t head_dim);

// The numbers behind `factors`, if they are those of a published Llama 3 model in all but `factor`
// (every one of them has the defaults above). Unimplemented otherwise.
absl::StatusOr<Llama3Rope> RecoverLlama3Rope(absl::Span<const float> factors, double theta);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_GGUF_GGUF_ROPE_H_
