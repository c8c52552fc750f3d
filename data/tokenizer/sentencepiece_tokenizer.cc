// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/tokenizer/added_tokens.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/data/tokenizer/sentencepiece_library.h"
#include "zeroth/formats/hf_added_tokens.h"
#include "zeroth/formats/hf_tokenizer.h"
#include "zeroth/formats/json_fields.h"
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

// A private-use character, U+10FFFD, which is in no vocabulary. No piece spans it and the text
// after it, so that text gets the pieces of a continuation. (Without byte pieces, the library joins
// it with unknown characters that follow it at once.)
constexpr char kGuard[] = "\xF4\x8F\xBF\xBD";

class SentencePieceTokenizer final : public Tokenizer {
 public:
  absl::Status Load(absl::string_view model, const nlohmann::json& config) {
    if (!LengthsFit(model, /*has_messages=*/true)) {
      return absl::InvalidArgumentError(
          "not a SentencePiece model: a field is unknown or longer than the file; is the file cut "
          "short?");
    }
    ZEROTH_RETURN_IF_ERROR(FromLibrary(library_.Load(Std(model)), "not a SentencePiece model"));
    ZEROTH_RETURN_IF_ERROR(ReadConfig(config));
    bool ends_words_at_spaces = true;
    for (int id = 0; id < library_.size(); ++id) {
      const std::string& piece = library_.Piece(id);
      if (library_.IsControl(id) && spelling_of_.emplace(id, piece).second) {
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
    // After an added token, the library adds a space to one that the text has, unless the guard is
    // in front.
    cuts_at_spaces_ = ends_words_at_spaces && one == two && added_.CutsAtSpaces() &&
                      !(space_after_token_ && added_.finds_any());
    ZEROTH_ASSIGN_OR_RETURN(guard_, Encode(kGuard));
    return FromLibrary(library_.Decode(guard_, &decoded_guard_), "SentencePiece");
  }

  std::string name() const override { return "sentencepiece"; }
  int32_t vocab_size() const override { return vocab_size_; }
  int32_t text_vocab_size() const override { return text_vocab_size_; }
  std::optional<int32_t> begin_of_text() const override { return begin_; }
  int32_t end_of_text() const override { return end_; }
  absl::Span<const int32_t> prefix() const override { return prefix_; }
  absl::Span<const int32_t> suffix() const override { return suffix_; }
  std::optional<int32_t> Find(absl::string_view token) const override {
    for (const auto& [id, content] : spelling_of_) {
      if (content == token) return id;
    }
    const int id = library_.IdOf(Std(token));
    // The library returns the unknown token's id for an unknown piece.
    if (library_.Piece(id) != token) return std::nullopt;
    return id;
  }

  absl::Status EncodeTo(absl::string_view text, bool continues, Sink sink) const override {
    return EncodeParts(text, continues ? Place::kContinues : Place::kStart, sink);
  }
  absl::Status EncodeAfterToken(absl::string_view text, Sink sink) const override {
    return EncodeParts(text, Place::kAfterToken, sink);
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
    bool follows_token = false;
    const auto flush = [&]() -> absl::Status {
      // The library drops a space that the pieces begin with. It is the text's where EncodePart
      // put the guard in front.
      const bool guards = !run.empty() && follows_token && !space_after_token_;
      if (guards) run.insert(run.begin(), guard_.begin(), guard_.end());
      std::string part;
      ZEROTH_RETURN_IF_ERROR(FromLibrary(library_.Decode(run, &part), "SentencePiece"));
      run.clear();
      absl::StrAppend(&text, absl::StripPrefix(part, guards ? decoded_guard_ : ""));
      return absl::OkStatus();
    };
    for (const int32_t id : ids) {
      const auto token = spelling_of_.find(id);
      if (token == spelling_of_.end() && id < library_.size()) {
        run.push_back(id);
        continue;
      }
      ZEROTH_RETURN_IF_ERROR(flush());
      // A text behind the prefix was encoded as one at the start.
      follows_token = std::find(prefix_.begin(), prefix_.end(), id) == prefix_.end();
      if (token != spelling_of_.end()) text += token->second;
    }
    ZEROTH_RETURN_IF_ERROR(flush());
    return replace_invalid ? ReplaceInvalidUtf8(text) : text;
  }

 private:
  enum class Place { kStart, kAfterToken, kContinues };

  // Reads from tokenizer_config.json which tokens are added to the model's, which begin and end a
  // text, and whether a text after a token gets a space ("legacy", unless it is false).
  absl::Status ReadConfig(const nlohmann::json& config) {
    vocab_size_ = text_vocab_size_ = library_.size();
    HfTokenizer files;
    files.config = config;
    for (int id = 0; id < library_.size(); ++id) {
      files.bpe.vocab.emplace_back(library_.Piece(id), id);
    }
    ZEROTH_RETURN_IF_ERROR(AddTokensOfConfig(&files, /*keeps_ids=*/true));
    for (AddedToken& token : files.added_tokens) {
      const bool is_piece = token.id < library_.size();
      token.special = token.special || (is_piece && library_.IsControl(token.id));
      added_.Add(token, token.content, /*parse_special=*/false);
      special_.Add(token, token.content, /*parse_special=*/true);
      // The library decodes a piece of spaces.
      const bool is_own = !is_piece || library_.Piece(token.id) != token.content;
      if (is_own || (!token.special && !absl::StrContains(token.content, kMetaspace))) {
        spelling_of_[token.id] = token.content;
      }
      vocab_size_ = std::max(vocab_size_, token.id + 1);
      // No text has a special token, such as padding.
      if (!token.special) text_vocab_size_ = std::max(text_vocab_size_, token.id + 1);
    }
    ZEROTH_ASSIGN_OR_RETURN(begin_, files.Named("bos_token"));
    ZEROTH_ASSIGN_OR_RETURN(const auto end, files.Named("eos_token"));
    if (!begin_ && library_.begin_of_text() >= 0) begin_ = library_.begin_of_text();
    end_ = end.value_or(library_.end_of_text());
    if (end_ < 0) {
      return absl::InvalidArgumentError(
          "no token ends a text, so none separates documents: the SentencePiece model has no "
          "eos_id, and there is no tokenizer_config.json with an \"eos_token\"");
    }
    ZEROTH_ASSIGN_OR_RETURN(const bool begins, BoolField(config, "add_bos_token", true));
    ZEROTH_ASSIGN_OR_RETURN(const bool ends, BoolField(config, "add_eos_token", false));
    ZEROTH_ASSIGN_OR_RETURN(space_after_token_, BoolField(config, "legacy", true));
    if (begins && begin_) prefix_ = {*begin_};
    if (ends) suffix_ = {end_};
    for (const int32_t id : {prefix_.empty() ? end_ : *begin_, end_}) {
      text_vocab_size_ = std::max(text_vocab_size_, id + 1);
    }
    return absl::OkStatus();
  }

  absl::Status EncodeParts(absl::string_view text, Place place, Sink sink) const {
    return added_.Split(text, [&](absl::string_view part, const AddedToken* token) -> absl::Status {
      if (token == nullptr) {
        return EncodePart(part, part.data() == text.data() ? place : Place::kAfterToken, sink);
      }
      sink(absl::MakeConstSpan(&token->id, 1));
      return absl::OkStatus();
    });
  }

  absl::Status EncodePart(absl::string_view text, Place place, Sink sink) const {
    // The space that the library puts before a text stands for the one that a continuation begins
    // with, unless that is all. Other continuations follow the guard, whose ids are dropped.
    const bool continues = place == Place::kContinues;
    const bool drops_space =
        continues && cuts_at_spaces_ && absl::StartsWith(text, " ") && text != " ";
    if (drops_space) text.remove_prefix(1);
    const bool guards =
        (continues && !drops_space) || (place == Place::kAfterToken && !space_after_token_);
    std::vector<int> ids;
    ZEROTH_RETURN_IF_ERROR(FromLibrary(guards ? library_.Encode(absl::StrCat(kGuard, text), &ids)
                                              : library_.Encode(Std(text), &ids),
                                       "SentencePiece"));
    constexpr size_t kPiece = 8192;
    for (size_t begin = guards ? guard_.size() : 0; begin < ids.size(); begin += kPiece)
      sink(absl::MakeConstSpan(ids).subspan(begin, kPiece));
    return absl::OkStatus();
  }

  SentencePieceLibrary library_;
  AddedTokenFinder special_;  // control tokens and the config's special ones
  AddedTokenFinder added_;    // the config's other tokens, which are found in every text
  // Of control tokens and of the config's, as far as the library does not decode them.
  std::map<int32_t, std::string> spelling_of_;
  int32_t vocab_size_ = 0;
  int32_t text_vocab_size_ = 0;
  std::optional<int32_t> begin_;
  int32_t end_ = -1;
  std::vector<int32_t> prefix_;
  std::vector<int32_t> suffix_;
  bool space_after_token_ = true;
  bool cuts_at_spaces_ = false;
  std::vector<int32_t> guard_;  // the ids of kGuard
  std::string decoded_guard_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> SentencePieceFromBytes(absl::string_view model,
                                                                  const nlohmann::json& config,
                                                                  bool parse_special) {
  if (parse_special) {
    return absl::UnimplementedError(
        "special tokens in text (--parse_special) need a tokenizer.json; a SentencePiece .model "
        "does not say what they mean there");
  }
  auto tokenizer = std::make_unique<SentencePieceTokenizer>();
  ZEROTH_RETURN_IF_ERROR(tokenizer->Load(model, config));
  return tokenizer;
}

}  // namespace zeroth
