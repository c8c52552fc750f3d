// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

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

  // The name in messages: "byte", "gpt2".
  virtual std::string name() const = 0;
  // Ids are in [0, vocab_size()).
  virtual int32_t vocab_size() const = 0;
  // Ids of texts, with prefix, suffix and end-of-text token, are in [0, text_vocab_size()); special
  // tokens that only a chat template writes may lie beyond.
  virtual int32_t text_vocab_size() const { return vocab_size(); }
  // The id that separates documents.
  virtual int32_t end_of_text() const = 0;
  // The ids that the tokenizer's template puts before and after a text; often a begin-of-text
  // token.
  virtual absl::Span<const int32_t> prefix() const { return {}; }
  virtual absl::Span<const int32_t> suffix() const { return {}; }
  // The id of the token that models and chat templates call "bos_token", whether or not `prefix`
  // has it; std::nullopt if there is none.
  virtual std::optional<int32_t> begin_of_text() const { return std::nullopt; }
  // The id of a token, spelled as in the vocabulary, special tokens included.
  virtual std::optional<int32_t> Find(absl::string_view token) const = 0;

  // Feeds the ids of `text` (any bytes), without prefix and suffix, to `sink` in pieces of bounded
  // size, so that a large corpus is never held as ids twice. `continues`: the text is the later
  // part of a document that was cut. ResourceExhausted if a pattern that splits words takes too
  // many steps.
  virtual absl::Status EncodeTo(absl::string_view text, bool continues, Sink sink) const = 0;
  // Like EncodeTo, for text that follows a special token: a tokenizer that marks only the beginning
  // of the whole text, as Metaspace with "first" does, adds no mark here.
  virtual absl::Status EncodeAfterToken(absl::string_view text, Sink sink) const {
    return EncodeTo(text, /*continues=*/false, sink);
  }
  // Receives consecutive parts of a text: text, or a special token with the whitespace that belongs
  // to it.
  using PartSink =
      absl::FunctionRef<absl::Status(absl::string_view part, std::optional<int32_t> token)>;
  // Splits a text at the special tokens that it spells, as Hugging Face's libraries do, whether or
  // not EncodeTo encodes them as tokens. By default there are none.
  virtual absl::Status SplitSpecial(absl::string_view text, PartSink sink) const {
    return text.empty() ? absl::OkStatus() : sink(text, std::nullopt);
  }
  // True if a text may be split before any space that follows a printable ASCII character without
  // changing its ids, so that a large corpus need not be held as text either.
  virtual bool CutsAtSpaces() const = 0;

  // Collects the ids of EncodeTo.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const;

  // The bytes of `ids`; special tokens become their spelling. OutOfRange names the first id outside
  // the vocabulary. For byte-level tokenizers, Decode(Encode(text)) == text for any bytes.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids) const;
  // Like Decode, but returns valid UTF-8: U+FFFD replaces invalid bytes.
  absl::StatusOr<std::string> DecodeUtf8Text(absl::Span<const int32_t> ids) const;

 protected:
  // `ids` are in the vocabulary.
  virtual absl::StatusOr<std::string> DecodeIds(absl::Span<const int32_t> ids,
                                                bool replace_invalid) const = 0;

 private:
  absl::Status CheckIds(absl::Span<const int32_t> ids) const;
};

// The spelling of the end-of-text token in text and in vocabularies.
inline constexpr char kEndOfTextSpelling[] = "<|endoftext|>";

// Every byte is a token, 0 to 255; 256 ends a text. Needs no files and no training. "<|endoftext|>"
// inside a text is thirteen ordinary bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEndOfText = 256;
  static constexpr int32_t kVocabSize = 257;

  std::string name() const override { return "byte"; }
  int32_t vocab_size() const override { return kVocabSize; }
  int32_t end_of_text() const override { return kEndOfText; }
  std::optional<int32_t> Find(absl::string_view token) const override;
  absl::Status EncodeTo(absl::string_view text, bool continues, Sink sink) const override;
  bool CutsAtSpaces() const override { return true; }

 protected:
  absl::StatusOr<std::string> DecodeIds(absl::Span<const int32_t> ids,
                                        bool replace_invalid) const override;
};

}  // namespace zeroth
