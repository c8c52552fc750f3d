// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/data/tokenizer/regex.h"

namespace zeroth {

// The "pre_tokenizer" of a tokenizer.json, which splits text into words; tokens never cross words.
// Knows ByteLevel, Split, Digits, Metaspace and Sequence. Immutable and thread-safe.
class PreTokenizer {
 public:
  // Receives the words in order; a word is valid during the call only.
  using Sink = absl::FunctionRef<absl::Status(absl::string_view)>;

  // Where a piece stands: at the start of a text, after another piece or an added token, or where a
  // text was cut, which adds no space that the text does not have.
  enum class Place { kStart, kAfterPiece, kContinues };

  // Every text is one word.
  PreTokenizer() = default;
  // Unimplemented names an unknown kind; InvalidArgument names a wrong field.
  static absl::StatusOr<PreTokenizer> FromJson(const nlohmann::json& json);

  // True if the vocabulary spells the bytes of words in GPT-2's alphabet. ForEachWord gives the
  // bytes themselves.
  bool byte_level() const { return byte_level_; }
  // True if a regular expression splits words; it must see spaces as spaces.
  bool has_expressions() const;
  // True if in every text a word ends before each space that follows a printable ASCII character.
  bool CutsAtSpaces() const;

  // Splits `piece`, which is valid UTF-8.
  absl::Status ForEachWord(absl::string_view piece, Place place, Regex::Scratch& scratch,
                           Sink sink) const {
    return Run(0, piece, place, scratch, sink);
  }

 private:
  enum class Kind { kSplit, kPrefixSpace, kMetaspace };
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prepend { kAlways, kFirst, kNever };
  struct Stage {
    Kind kind = Kind::kSplit;
    TextPattern pattern{};                    // kSplit
    Behavior behavior = Behavior::kIsolated;  // kSplit
    bool invert = false;                      // kSplit
    std::string replacement{};                // kMetaspace
    Prepend prepend = Prepend::kAlways;       // kMetaspace
  };
  struct Part {
    size_t begin;
    size_t end;
    bool is_delimiter;
  };

  absl::Status Add(const std::string& type, const nlohmann::json& json);
  absl::Status AddSplit(const nlohmann::json& json);
  absl::Status AddMetaspace(const nlohmann::json& json);
  absl::Status AddExpression(absl::string_view pattern);
  absl::Status Run(size_t stage, absl::string_view piece, Place place, Regex::Scratch& scratch,
                   Sink sink) const;
  absl::Status Split(size_t stage, absl::string_view piece, Place place, Regex::Scratch& scratch,
                     Sink sink) const;
  static std::vector<Part> Join(Behavior behavior, const std::vector<Part>& parts);

  std::vector<Stage> stages_;
  bool byte_level_ = false;
};

}  // namespace zeroth
