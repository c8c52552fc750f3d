// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Prompts and generated text, for the trainer's samples and //tools/generate.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Returns the tokens of a prompt: the tokenizer's prefix and the tokens of `text`, or the
// end-of-text token if these are empty.
absl::StatusOr<std::vector<int32_t>> PromptTokens(const Tokenizer& tokenizer,
                                                  absl::string_view text);

// Decodes `tokens`, which follow those of `prompt`. Both are decoded together, because some
// tokenizers drop the space before the first word of a text.
absl::StatusOr<std::string> DecodeContinuation(const Tokenizer& tokenizer,
                                               absl::Span<const int32_t> prompt,
                                               absl::Span<const int32_t> tokens);

// Returns the tokens that end a text: the tokenizer's end-of-text token, and eos_token_id (an id or
// a list) of `config`, a config.json or generation_config.json.
std::vector<int32_t> StopTokens(const nlohmann::json& config, const Tokenizer& tokenizer);

// Returns text that is safe for a terminal: valid UTF-8, newlines and tabs stay, and all other
// bytes and control characters become "\xNN".
std::string Printable(absl::string_view text);

}  // namespace zeroth
