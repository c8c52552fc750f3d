// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_NORMALIZER_H_
#define ZEROTH_DATA_TOKENIZER_NORMALIZER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/tokenizer/replacement.h"

namespace zeroth {

// The "normalizer" of a tokenizer.json: what happens to text before it is cut into words. Knows
// NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence. Immutable and thread-safe.
class Normalizer {
 public:
  // Does nothing.
  Normalizer() = default;
  // Unimplemented names a kind that is not known; InvalidArgument a part that is missing.
  static absl::StatusOr<Normalizer> FromJson(const nlohmann::json& json);

  bool empty() const { return steps_.empty(); }
  // Whether it puts something before a text.
  bool prepends() const;
  // Whether a text that is cut before a space, behind a printing ASCII character, becomes what its
  // two parts become, the second with `continues`. `as_spaces`: whether what the spaces become must
  // still be spaces.
  bool CutsAtSpaces(bool as_spaces) const;

  // Normalises `text` in place. Bytes that are not UTF-8 stay as they are. With `continues`, the
  // text is the later part of one that was cut, and nothing is prepended.
  absl::Status Apply(bool continues, std::string* text, Regex::Scratch& scratch) const;

 private:
  enum class Kind { kUnicode, kPrepend, kReplace };
  struct Step {
    Kind kind = Kind::kUnicode;
    int form = 0;         // kUnicode: options of utf8proc
    bool compat = false;  // kUnicode: a form with K
    std::string prepend;  // kPrepend
    Replacement replace;  // kReplace
  };

  absl::Status Add(const nlohmann::json& json, int depth);

  std::vector<Step> steps_;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_NORMALIZER_H_
