// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_H_
#define ZEROTH_DATA_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// Text to token ids and back. Immutable and thread-safe.
class Tokenizer {
 public:
  // Receives consecutive pieces of a token sequence; a piece is valid during the call only.
  using Sink = absl::FunctionRef<void(absl::Span<const int32_t>)>;

  virtual ~Tokenizer() = default;

  // "byte", "gpt2": for messages.
  virtual std::string name() const = 0;
  // Ids are in [0, vocab_size()).
  virtual int32_t vocab_size() const = 0;
  // The id that separates documents.
  virtual int32_t end_of_text() const = 0;

  // Feeds the ids of `text`, any bytes at all, to `sink` in pieces of bounded size, so that a large
  // corpus is never held as ids twice. Cannot fail: every byte string has an encoding. A text that
  // is cut before a space, behind a printing ASCII character, has the ids of its two parts, so that
  // a large corpus need not be held as text either.
  virtual void EncodeTo(absl::string_view text, Sink sink) const = 0;

  // The bytes of `ids`; the end-of-text id becomes its spelling "<|endoftext|>".
  // Decode(Encode(text)) == text for all bytes, valid UTF-8 or not. OutOfRange names the first id
  // outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids) const = 0;

  // EncodeTo, collected.
  std::vector<int32_t> Encode(absl::string_view text) const;
};

// How the end-of-text token is spelled in text and in vocabularies.
inline constexpr char kEndOfTextSpelling[] = "<|endoftext|>";

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_H_
