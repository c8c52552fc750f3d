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

// How the next token is sampled, with the names and order of Hugging Face transformers: logits are
// divided by the temperature, the top_k largest are kept, and then the smallest set of the largest
// of these whose probabilities add up to top_p.
struct SamplingOptions {
  double temperature = 0.8;  // 0: greedy
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;
};
// Returns the index that `uniform`, drawn from [0, 1), selects. `logits` must not be empty.
int32_t PickToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform);

struct GenerateOptions {
  int64_t max_tokens = 160;
  SamplingOptions sampling;
  uint64_t seed = 0;
  // Tokens that end the generation; they are not returned.
  std::vector<int32_t> stop_tokens;
  // Ids from this one on are never picked, since the tokenizer lacks them. 0: no limit.
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
// `model`. Uses a KV cache if `model` supports one. Without a cache, and once the context is full,
// each token costs a forward of the whole context, truncated on the left. InvalidArgument for
// options out of range, and for a prompt that is empty or has ids beyond the vocabulary.
absl::StatusOr<std::vector<int32_t>> Generate(
    const LanguageModel& model, absl::Span<const int32_t> prompt, const GenerateOptions& options,
    LogitsFunction logits, TokenSink sink = [](int32_t) { return absl::OkStatus(); });

}  // namespace zeroth
