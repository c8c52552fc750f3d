// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_SAMPLER_H_
#define ZEROTH_TRAIN_SAMPLER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/data/tokenizer.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

struct SampleOptions {
  std::string prompt;
  int64_t tokens = 160;
  double temperature = 0.8;  // 0: the likeliest token
  uint64_t seed = 0;
};

// The index that softmax(logits / temperature) gives for a uniform draw in [0, 1); the largest
// logit's for temperature 0. Logits are not empty.
int32_t PickToken(absl::Span<const float> logits, double temperature, double uniform);

// Continues the prompt with the model as it is; collective, and the same text on every rank. Ends
// early at the tokenizer's end of text. Ids that the tokenizer does not have are never picked.
// Contexts longer than the model's are cut on the left. An empty prompt starts from the end-of-text
// token.
absl::StatusOr<std::string> Sample(Trainer& trainer, const Tokenizer& tokenizer,
                                   const SampleOptions& options);

// Text for a terminal: bytes that are neither printable ASCII, newline, tab nor part of valid UTF-8
// as "\xNN".
std::string Printable(absl::string_view text);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_SAMPLER_H_
