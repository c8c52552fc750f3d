// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_H_
#define ZEROTH_DATA_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
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
  // What the tokenizer's template puts before and behind a text: a begin-of-text token, mostly.
  virtual absl::Span<const int32_t> prefix() const { return {}; }
  virtual absl::Span<const int32_t> suffix() const { return {}; }
  // The id of a token as the vocabulary spells it, special ones included.
  virtual std::optional<int32_t> Find(absl::string_view token) const = 0;

  // Feeds the ids of `text`, any bytes at all, without prefix and suffix, to `sink` in pieces of
  // bounded size, so that a large corpus is never held as ids twice. With `continues`, the text is
  // the later part of one that was cut. ResourceExhausted if a pattern that cuts words takes too
  // many steps.
  virtual absl::Status EncodeTo(absl::string_view text, bool continues, Sink sink) const = 0;
  // Whether a text that is cut before a space, behind a printing ASCII character, has the ids of
  // its two parts, so that a large corpus need not be held as text either.
  virtual bool CutsAtSpaces() const = 0;

  // EncodeTo, collected.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const;

  // The bytes of `ids`; special tokens become their spelling. OutOfRange names the first id outside
  // the vocabulary. Of tokenizers of bytes, Decode(Encode(text)) == text whatever the bytes.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids) const;
  // The same as valid UTF-8: U+FFFD stands for what is none.
  absl::StatusOr<std::string> DecodeUtf8Text(absl::Span<const int32_t> ids) const;

 protected:
  // `ids` are in the vocabulary.
  virtual absl::StatusOr<std::string> DecodeIds(absl::Span<const int32_t> ids,
                                                bool replace_invalid) const = 0;

 private:
  absl::Status CheckIds(absl::Span<const int32_t> ids) const;
};

// How the end-of-text token is spelled in text and in vocabularies.
inline constexpr char kEndOfTextSpelling[] = "<|endoftext|>";

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_H_
