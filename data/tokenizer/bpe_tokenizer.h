// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/added_tokens.h"
#include "zeroth/data/tokenizer/bpe_model.h"
#include "zeroth/data/tokenizer/normalizer.h"
#include "zeroth/data/tokenizer/pre_tokenizer.h"
#include "zeroth/data/tokenizer/token_decoder.h"

namespace zeroth {

// The parts of a tokenizer.json, in the order in which text passes them.
struct BpeTokenizerParts {
  std::string name;
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeParts bpe;  // byte_level is set from pre_tokenizer
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  TokenDecoder decoder;
  std::optional<int32_t> begin_of_text;
  int32_t end_of_text = 0;
  // True if text that spells a special token becomes that token.
  bool parse_special = false;
};

// Encodes as Hugging Face's library "tokenizers": finds added tokens in the text, normalises the
// text between them, splits it into words, and merges the bytes or characters of each word.
class BpeTokenizer final : public Tokenizer {
 public:
  // InvalidArgument if the parts do not fit each other.
  static absl::StatusOr<std::unique_ptr<BpeTokenizer>> Create(BpeTokenizerParts parts);
  ~BpeTokenizer() override;

  std::string name() const override { return parts_.name; }
  int32_t vocab_size() const override { return static_cast<int32_t>(spelling_of_.size()); }
  int32_t text_vocab_size() const override { return text_vocab_size_; }
  int32_t end_of_text() const override { return parts_.end_of_text; }
  absl::Span<const int32_t> prefix() const override { return parts_.prefix; }
  absl::Span<const int32_t> suffix() const override { return parts_.suffix; }
  std::optional<int32_t> begin_of_text() const override { return parts_.begin_of_text; }
  std::optional<int32_t> Find(absl::string_view token) const override;
  absl::Status EncodeTo(absl::string_view text, bool continues, Sink sink) const override {
    return EncodeParts(text, continues ? Place::kContinues : Place::kStart, sink);
  }
  absl::Status EncodeAfterToken(absl::string_view text, Sink sink) const override {
    return EncodeParts(text, Place::kAfterPiece, sink);
  }
  absl::Status SplitSpecial(absl::string_view text, PartSink sink) const override {
    return special_.SplitSpecial(text, sink);
  }
  bool CutsAtSpaces() const override { return cuts_at_spaces_; }

 protected:
  absl::StatusOr<std::string> DecodeIds(absl::Span<const int32_t> ids,
                                        bool replace_invalid) const override;

 private:
  struct Scratch;
  using Place = PreTokenizer::Place;

  BpeTokenizer(BpeTokenizerParts parts, BpeModel model);
  absl::Status AddTokens();
  bool DecideCutsAtSpaces() const;
  absl::Status EncodeParts(absl::string_view text, Place place, Sink sink) const;
  // Encodes a part of the text without added tokens.
  absl::Status EncodePiece(absl::string_view piece, Place place, Scratch& scratch, Sink sink) const;
  absl::Status EncodeNormalized(absl::string_view piece, Place place, Scratch& scratch,
                                Sink sink) const;
  void EncodeWord(absl::string_view word, Scratch& scratch, Sink sink) const;
  // `is_whole`: the word is not part of a longer one.
  void EncodeCached(absl::string_view word, bool is_whole, Scratch& scratch) const;

  BpeTokenizerParts parts_;
  const BpeModel model_;
  std::vector<std::string> spelling_of_;  // by id; empty where an id is not used
  int32_t text_vocab_size_ = 0;
  AddedTokenFinder raw_;
  AddedTokenFinder normalized_;
  AddedTokenFinder special_;
  bool cuts_at_spaces_ = false;
  mutable std::mutex mutex_;  // guards idle_
  // Scratch memory of earlier calls, reused so that many small texts are fast.
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace zeroth
