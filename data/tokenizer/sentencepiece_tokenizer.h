// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_
#define ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

// A tokenizer from the content of a SentencePiece .model file, read by that library. Its template
// is the begin-of-text token, if the model has one, and what ends a text is its end token.
// Spellings of control tokens in text are text. `parse_special` is refused: what a special token
// means beside others is said by a tokenizer.json only. InvalidArgument if it is no such file, or
// has no end token.
absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceFromBytes(absl::string_view model,
                                                                  bool parse_special);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_
