// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/tokenizer/added_tokens.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/data/tokenizer/sentencepiece_library.h"
#include "zeroth/formats/protobuf.h"
#include "zeroth/formats/sentencepiece_model.h"

namespace zeroth {
namespace {

absl::Status FromLibrary(absl::string_view error, absl::string_view what) {
  if (error.empty()) return absl::OkStatus();
  return InvalidArgument(what, ": ", error);
}

// True if every length-delimited field fits into its message. The library allocates a string before
// it checks the length: tens of megabytes for a file of a few bytes.
bool LengthsFit(absl::string_view message, bool has_messages) {
  while (!message.empty()) {
    ProtobufField field;
    if (!TakeProtobufField(&message, &field)) return false;
    // Fields 1 to 5 of a model are messages; the fourth, self-test data, has messages itself.
    const bool is_message = has_messages && field.wire_type == ProtobufField::kDelimited &&
                            field.number >= 1 && field.number <= 5;
    if (is_message && !LengthsFit(field.bytes, field.number == 4)) return false;
  }
  return true;
}

std::string_view Std(absl::string_view text) { return {text.data(), text.size()}; }

class SentencePieceTokenizer final : public Tokenizer {
 public:
  absl::Status Load(absl::string_view model) {
    if (!LengthsFit(model, /*has_messages=*/true)) {
      return absl::InvalidArgumentError(
          "not a SentencePiece model: a field is unknown or longer than the file; is the file cut "
          "short?");
    }
    ZEROTH_RETURN_IF_ERROR(FromLibrary(library_.Load(Std(model)), "not a SentencePiece model"));
    if (library_.end_of_text() < 0) {
      return absl::InvalidArgumentError(
          "the SentencePiece model has no end token (eos_id), which separates documents");
    }
    if (library_.begin_of_text() >= 0) prefix_[0] = library_.begin_of_text();
    bool ends_words_at_spaces = true;
    for (int id = 0; id < library_.size(); ++id) {
      const std::string& piece = library_.Piece(id);
      if (library_.IsControl(id)) {
        special_.Add({.id = id, .content = piece, .special = true}, piece, /*parse_special=*/true);
      }
      // A space is allowed only at the beginning of a piece.
      size_t begin = 0;
      while (absl::StartsWith(absl::string_view(piece).substr(begin), kMetaspace))
        begin += sizeof(kMetaspace) - 1;
      if (piece.find(kMetaspace, begin) != std::string::npos) ends_words_at_spaces = false;
    }
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> two, Encode("a b"));
    ZEROTH_ASSIGN_OR_RETURN(std::vector<int32_t> one, Encode("a"));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> other, Encode("b"));
    // The library adds a space before every text, so a later part must drop the space that it
    // begins with.
    one.insert(one.end(), other.begin(), other.end());
    cuts_at_spaces_ = ends_words_at_spaces && one == two;
    return absl::OkStatus();
  }

  std::string name() const override { return "sentencepiece"; }
  int32_t vocab_size() const override { return library_.size(); }
  int32_t end_of_text() const override { return library_.end_of_text(); }
  absl::Span<const int32_t> prefix() const override {
    return absl::MakeConstSpan(prefix_).subspan(0, library_.begin_of_text() >= 0 ? 1 : 0);
  }
  std::optional<int32_t> Find(absl::string_view token) const override {
    const int id = library_.IdOf(Std(token));
    // The library returns the unknown token's id for an unknown piece.
    if (library_.Piece(id) != token) return std::nullopt;
    return id;
  }

  absl::Status EncodeTo(absl::string_view text, bool continues, Sink sink) const override {
    if (continues && cuts_at_spaces_ && absl::StartsWith(text, " ")) text.remove_prefix(1);
    std::vector<int> ids;
    ZEROTH_RETURN_IF_ERROR(FromLibrary(library_.Encode(Std(text), &ids), "SentencePiece"));
    constexpr size_t kPiece = 8192;
    for (size_t begin = 0; begin < ids.size(); begin += kPiece)
      sink(absl::MakeConstSpan(ids).subspan(begin, kPiece));
    return absl::OkStatus();
  }
  absl::Status SplitSpecial(absl::string_view text, PartSink sink) const override {
    return special_.SplitSpecial(text, sink);
  }
  bool CutsAtSpaces() const override { return cuts_at_spaces_; }

 protected:
  absl::StatusOr<std::string> DecodeIds(absl::Span<const int32_t> ids,
                                        bool replace_invalid) const override {
    // The library drops control tokens. Other tokenizers spell them, so this does, too.
    std::string text;
    std::vector<int> run;
    const auto flush = [&]() -> absl::Status {
      std::string part;
      ZEROTH_RETURN_IF_ERROR(FromLibrary(library_.Decode(run, &part), "SentencePiece"));
      run.clear();
      text += part;
      return absl::OkStatus();
    };
    for (const int32_t id : ids) {
      if (!library_.IsControl(id)) {
        run.push_back(id);
        continue;
      }
      ZEROTH_RETURN_IF_ERROR(flush());
      text += library_.Piece(id);
    }
    ZEROTH_RETURN_IF_ERROR(flush());
    return replace_invalid ? ReplaceInvalidUtf8(text) : text;
  }

 private:
  SentencePieceLibrary library_;
  AddedTokenFinder special_;  // control tokens
  std::array<int32_t, 1> prefix_ = {};
  bool cuts_at_spaces_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceFromBytes(absl::string_view model,
                                                                  bool parse_special) {
  if (parse_special) {
    return absl::UnimplementedError(
        "special tokens in text (--parse_special) need a tokenizer.json; a SentencePiece .model "
        "does not say what they mean there");
  }
  auto tokenizer = std::make_unique<SentencePieceTokenizer>();
  ZEROTH_RETURN_IF_ERROR(tokenizer->Load(model));
  return tokenizer;
}

}  // namespace zeroth
