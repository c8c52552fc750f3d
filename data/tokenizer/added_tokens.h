// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_ADDED_TOKENS_H_
#define ZEROTH_DATA_TOKENIZER_ADDED_TOKENS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace zeroth {

// An entry of "added_tokens".
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // not where a letter or digit touches it
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // takes the spaces behind it
  bool normalized = false;   // found in normalised text, else in text as it is
  bool special = false;

  static absl::StatusOr<AddedToken> FromJson(const nlohmann::json& json);
};

// Finds tokens in text: from the left, the longest at each place, as Hugging Face's
// AddedVocabulary. Immutable and thread-safe.
class AddedTokenFinder {
 public:
  // Receives consecutive parts of a text; `token` is null for what is between tokens.
  using Sink = absl::FunctionRef<absl::Status(absl::string_view part, const AddedToken* token)>;

  // With `parse_special` false, the spelling of a special token is passed over, as text.
  void Add(const AddedToken& token, absl::string_view spelling, bool parse_special);

  // Whether there is a token that is not passed over.
  bool finds_any() const { return finds_any_; }
  // Whether the parts of a text that is cut before a space, behind a printing ASCII character,
  // are those of its two halves.
  bool CutsAtSpaces() const { return cuts_at_spaces_; }

  absl::Status Split(absl::string_view text, Sink sink) const;

 private:
  struct Entry {
    AddedToken token;
    bool is_text = false;
  };
  // The longest spelling at the front of `text`: its entry, and its bytes; null for none.
  const Entry* LongestAt(absl::string_view text, size_t* length) const;

  std::vector<Entry> tokens_;
  // A trie: nodes are numbers, 0 the root.
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // key: node << 8 | byte
  std::vector<int32_t> entry_of_node_ = {-1};
  bool begins_[256] = {};
  bool cuts_at_spaces_ = true;
  bool finds_any_ = false;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_ADDED_TOKENS_H_
