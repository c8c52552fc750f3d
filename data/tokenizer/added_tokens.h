// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/data/tokenizer.h"
#include "zeroth/formats/hf_tokenizer.h"

namespace zeroth {

// Finds added tokens in text from left to right. If several match at one position, the longest
// wins, as in Hugging Face's AddedVocabulary. Immutable and thread-safe.
class AddedTokenFinder {
 public:
  // Receives consecutive parts of a text; `token` is null for text between tokens.
  using Sink = absl::FunctionRef<absl::Status(absl::string_view part, const AddedToken* token)>;

  // With `parse_special` false, the spelling of a special token is text.
  void Add(const AddedToken& token, absl::string_view spelling, bool parse_special);

  // True if Split can find any token.
  bool finds_any() const { return finds_any_; }
  // True if a text may be split before any space that follows a printable ASCII character without
  // changing how added tokens are found in it.
  bool CutsAtSpaces() const { return cuts_at_spaces_; }

  absl::Status Split(absl::string_view text, Sink sink) const;
  // Like Split, but treats added tokens that are not special as text (Tokenizer::SplitSpecial).
  absl::Status SplitSpecial(absl::string_view text, Tokenizer::PartSink sink) const {
    return Split(text, [sink](absl::string_view part, const AddedToken* token) {
      const bool is_special = token != nullptr && token->special;
      return sink(part, is_special ? std::make_optional(token->id) : std::nullopt);
    });
  }

 private:
  struct Entry {
    AddedToken token;
    bool is_text = false;
  };
  // Returns the longest token at the front of `text`, and sets its length; null if there is none.
  const Entry* LongestAt(absl::string_view text, size_t* length) const;

  std::vector<Entry> tokens_;
  // A trie. Nodes are numbers; 0 is the root.
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // key: node << 8 | byte
  std::vector<int32_t> entry_of_node_ = {-1};
  bool begins_[256] = {};
  bool cuts_at_spaces_ = true;
  bool finds_any_ = false;
};

}  // namespace zeroth
