// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/data/tokenizer.h"
#include "zeroth/formats/hf_tokenizer.h"

namespace zeroth {

struct TokenizerOptions {
  // True: text that spells a special token becomes that token, as in Hugging Face's libraries by
  // default. False: it is ordinary text.
  bool parse_special = false;
  // Special tokens that are added to those of the files (AddNewTokens).
  std::vector<std::string> new_tokens = {};
};

// Makes a tokenizer from the content of Hugging Face's tokenizer.json and of the
// tokenizer_config.json beside it, whose "eos_token" ends a text. If `config` is null, one of the
// usual spellings ends it. Unimplemented names an unknown part; InvalidArgument names a wrong one.
// "truncation" and "padding" are not applied, as in transformers.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(const nlohmann::json& json,
                                                             const nlohmann::json& config,
                                                             const TokenizerOptions& options);

// Opens the tokenizer whose files FindTokenizerFiles finds at `path`. Errors name the file, and the
// part that is wrong or unknown.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                         const TokenizerOptions& options = {});

// Makes a tokenizer from the content of a SentencePiece .model file and of the files beside it
// (ReadTokenizerConfig; may be null), which may add tokens. Its begin- and end-of-text tokens are
// "bos_token" and "eos_token", else those of the model. Its prefix is the begin-of-text token, if
// there is one, unless "add_bos_token" is false; the end-of-text token follows each text if
// "add_eos_token" is true. A text after a token gets a space, as at the start, unless "legacy" is
// false. Spellings of special tokens in text are text. Unimplemented with `parse_special`, because
// only a tokenizer.json defines special tokens in text. InvalidArgument if `model` is not such a
// file, or if no token ends a text.
absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceFromBytes(absl::string_view model,
                                                                  const nlohmann::json& config,
                                                                  bool parse_special);

}  // namespace zeroth
