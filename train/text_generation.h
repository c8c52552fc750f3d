// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Text in, text out: what a sample of the trainer's and //tools/generate have in common.

#ifndef ZEROTH_TRAIN_TEXT_GENERATION_H_
#define ZEROTH_TRAIN_TEXT_GENERATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

// The ids that a model goes on from: the tokenizer's prefix and those of `text`; the end-of-text
// token if that is nothing.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const Tokenizer& tokenizer,
                                                  absl::string_view text);

// The text of `tokens`, which follow those of a prompt: some tokenizers leave out the space before
// a text's first word.
absl::StatusOr<std::string> DecodeContinuation(const Tokenizer& tokenizer,
                                               absl::Span<const int32_t> prompt,
                                               absl::Span<const int32_t> tokens);

// The tokens that end a text: the tokenizer's, and eos_token_id of `config`, a config.json or a
// generation_config.json, which is an id or a list of them.
std::vector<int32_t> StopTokens(const nlohmann::json& config, const Tokenizer& tokenizer);

// Text for a terminal: bytes that are neither printable ASCII, newline, tab nor part of valid UTF-8
// as "\xNN".
std::string Printable(absl::string_view text);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_TEXT_GENERATION_H_
