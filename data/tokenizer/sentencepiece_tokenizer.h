// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_
#define ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Makes a tokenizer of the content of a SentencePiece .model file. Its prefix is the begin-of-text
// token, if the model has one, and its end-of-text token is the model's end token. Spellings of
// control tokens in text are text. Unimplemented with `parse_special`, because only a
// tokenizer.json defines special tokens in text. InvalidArgument if `model` is no such file or has
// no end token.
absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceFromBytes(absl::string_view model,
                                                                  bool parse_special);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_
