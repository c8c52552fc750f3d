// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Continues a sequence of tokens with a model, one token at a time.

#pragma once

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

// How the next token is drawn. Names and order are those of Hugging Face transformers: logits are
// divided by the temperature, then the top_k largest stay, and then the fewest of these whose
// probabilities add up to top_p.
struct SamplingOptions {
  double temperature = 0.8;  // 0: the likeliest token
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
};
// Returns the index that a uniform draw in [0, 1) picks. Logits are not empty.
int32_t PickToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform);

struct GenerateOptions {
  int64_t max_tokens = 160;
  SamplingOptions sampling;
  uint64_t seed = 0;
  // Tokens that end a text, and are not part of it.
  std::vector<int32_t> stop_tokens;
  // Ids from here on are never picked, since the tokenizer does not have them. 0: all may be
  // picked.
  int64_t vocab_size = 0;
};
// InvalidArgument names the option that is out of its range.
absl::Status ValidateGenerate(const GenerateOptions& options);

// LanguageModel::Logits of one sequence; `cache` may be null.
using LogitsFunction = absl::FunctionRef<absl::StatusOr<Tensor>(
    absl::Span<const int32_t> tokens, int64_t from, KeyValueCache* cache)>;
// Called with each new token.
using TokenSink = absl::FunctionRef<absl::Status(int32_t token)>;

// Returns the tokens that follow `prompt`, the same on every rank. `logits` computes those of
// `model`. Uses a cache if `model` supports one. Without it, and once the model's positions are
// used up, each token costs a forward of the whole context, cut on the left. InvalidArgument for
// options out of range, and for a prompt that is empty or has ids beyond the vocabulary.
absl::StatusOr<std::vector<int32_t>> Generate(
    const LanguageModel& model, absl::Span<const int32_t> prompt, const GenerateOptions& options,
    LogitsFunction logits, TokenSink sink = [](int32_t) { return absl::OkStatus(); });

}  // namespace zeroth
