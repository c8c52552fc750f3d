// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_OPEN_TOKENIZER_H_
#define ZEROTH_DATA_TOKENIZER_OPEN_TOKENIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/tokenizer_json.h"

namespace zeroth {

// Finds the files of the tokenizer at `path`, a file or a directory. In a directory these are
// tokenizer.json (with tokenizer_config.json, if there is one), otherwise tokenizer.model,
// otherwise vocab.json with merges.txt. A file is a tokenizer.json if its name ends in .json, and
// SentencePiece's if it ends in .model. NotFound names what was looked for.
absl::StatusOr<std::vector<std::string>> FindTokenizerFiles(const std::string& path);

// Opens the tokenizer at `path`. Errors name the file, and the part that is wrong or unknown.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                         const TokenizerOptions& options = {});

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_OPEN_TOKENIZER_H_
