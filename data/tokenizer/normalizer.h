// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

#include "zeroth/data/tokenizer/regex.h"

namespace zeroth {

// The "normalizer" of a tokenizer.json, which changes text before it is split into words. Knows
// NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence. Immutable and thread-safe.
class Normalizer {
 public:
  // Does nothing.
  Normalizer() = default;
  // Unimplemented names an unknown kind; InvalidArgument names a missing field.
  static absl::StatusOr<Normalizer> FromJson(const nlohmann::json& json);

  bool empty() const { return steps_.empty(); }
  // True if a step prepends something to a text.
  bool prepends() const;
  // True if a text may be split before any space that follows a printable ASCII character without
  // changing its normal form, if the second part has `continues`. `as_spaces`: spaces must also
  // stay spaces.
  bool CutsAtSpaces(bool as_spaces) const;

  // Normalises `text` in place, except bytes that are not UTF-8. `continues`: the text is the later
  // part of one that was cut, so nothing is prepended.
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

  absl::Status Add(const std::string& type, const nlohmann::json& json);

  std::vector<Step> steps_;
};

}  // namespace zeroth
