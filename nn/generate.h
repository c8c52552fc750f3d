// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Continuing a sequence of tokens with a model, one token at a time.

#ifndef ZEROTH_NN_GENERATE_H_
#define ZEROTH_NN_GENERATE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/nn/key_value_cache.h"
#include "zeroth/nn/language_model.h"

namespace zeroth {

// Which token is drawn. The words and their order are those of Hugging Face transformers: logits
// are divided by the temperature, then the top_k largest stay, then the fewest of these whose
// probabilities add up to top_p.
struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest token
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
};
// The index that these options give for a uniform draw in [0, 1). Logits are not empty.
int32_t PickToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform);

struct GenerateOptions {
  int64_t max_tokens = 160;
  SamplingOptions sampling;
  uint64_t seed = 0;
  // Tokens that end a text; they are not part of it.
  std::vector<int32_t> stop_tokens;
  // Ids from here on are never picked: those that a tokenizer does not have. 0: all may be.
  int64_t vocab_size = 0;
};
// InvalidArgument names the one that is out of its range.
absl::Status ValidateGenerate(const GenerateOptions& options);

// LanguageModel::Logits of one sequence; `cache` may be null.
using LogitsFunction = absl::FunctionRef<absl::StatusOr<Tensor>(
    absl::Span<const int32_t> tokens, int64_t from, KeyValueCache* cache)>;
// Told of each new token.
using TokenSink = absl::FunctionRef<absl::Status(int32_t token)>;

// The tokens that follow `prompt`, which is not empty. With a cache where `model` takes one;
// otherwise, and from the token on at which the model's positions are full, the whole
// context is computed for each token, cut on the left. `logits` are those of `model`. The same
// tokens on every rank. InvalidArgument for options out of range, and for a prompt that is empty or
// has ids beyond the vocabulary.
absl::StatusOr<std::vector<int32_t>> Generate(
    const LanguageModel& model, absl::Span<const int32_t> prompt, const GenerateOptions& options,
    LogitsFunction logits, TokenSink sink = [](int32_t) { return absl::OkStatus(); });

}  // namespace zeroth

#endif  // ZEROTH_NN_GENERATE_H_
