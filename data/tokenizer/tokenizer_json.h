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
  // True: text that spells a special token becomes that token, as in Hugging Face's libraries by
  // default. False: it is ordinary text.
  bool parse_special = false;
};

// Makes a tokenizer of the content of Hugging Face's tokenizer.json and of the
// tokenizer_config.json beside it, whose "eos_token" ends a text. If `config` is null, one of the
// usual spellings ends it. Unimplemented names an unknown part; InvalidArgument names a wrong one.
// "truncation" and "padding" are not applied, as in transformers.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(const nlohmann::json& json,
                                                             const nlohmann::json& config,
                                                             const TokenizerOptions& options);

// Makes GPT-2's tokenizer of the content of its vocab.json and merges.txt. Errors as above.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromGpt2Files(const nlohmann::json& vocab,
                                                                  const std::string& merges,
                                                                  const TokenizerOptions& options);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_TOKENIZER_JSON_H_
