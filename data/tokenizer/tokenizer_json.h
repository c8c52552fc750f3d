// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_TOKENIZER_JSON_H_
#define ZEROTH_DATA_TOKENIZER_TOKENIZER_JSON_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

struct TokenizerOptions {
  // Whether text that spells a special token becomes that token, as in Hugging Face's libraries by
  // default. Else it is text like any other.
  bool parse_special = false;
};

// A tokenizer from the content of Hugging Face's tokenizer.json, and of the tokenizer_config.json
// beside it, which says by "eos_token" what ends a text (null if there is none: then one of the
// usual spellings). Unimplemented names a part that Zeroth does not know; InvalidArgument one that
// is wrong. "truncation" and "padding" are not applied, as they are not by transformers.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(const nlohmann::json& json,
                                                             const nlohmann::json& config,
                                                             const TokenizerOptions& options);

// GPT-2's tokenizer from the content of its vocab.json and merges.txt. Errors as above.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromGpt2Files(const nlohmann::json& vocab,
                                                                  const std::string& merges,
                                                                  const TokenizerOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_TOKENIZER_JSON_H_
