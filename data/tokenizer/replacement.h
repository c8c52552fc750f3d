// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKENIZER_REPLACEMENT_H_
#define ZEROTH_DATA_TOKENIZER_REPLACEMENT_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/tokenizer/regex.h"

namespace zeroth {

// A pattern, {"String": "…"} or {"Regex": "…"}. Immutable and thread-safe.
class TextPattern {
 public:
  TextPattern() = default;
  explicit TextPattern(absl::string_view literal) : literal_(literal) {}
  explicit TextPattern(Regex regex) : regex_(std::move(regex)) {}
  // InvalidArgument for anything else, an empty string, or a bad expression.
  static absl::StatusOr<TextPattern> FromJson(const nlohmann::json& json);

  // The string, and the expression. One of them is null.
  const std::string* literal() const { return regex_ ? nullptr : &literal_; }
  const Regex* regex() const { return regex_ ? &*regex_ : nullptr; }

  // As Regex::Find.
  absl::StatusOr<Regex::Match> Find(absl::string_view text, size_t from,
                                    Regex::Scratch& scratch) const;

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

// {"type": "Replace", "pattern": …, "content": "…"}, of normalizers and of decoders.
class Replacement {
 public:
  Replacement() = default;
  static absl::StatusOr<Replacement> FromJson(const nlohmann::json& json);

  const TextPattern& pattern() const { return pattern_; }
  const std::string& content() const { return content_; }

  // Replaces every match in `text`. Expressions apply to valid UTF-8 only.
  absl::Status Apply(std::string* text, Regex::Scratch& scratch) const;

 private:
  absl::Status AppendReplaced(absl::string_view text, Regex::Scratch& scratch,
                              std::string* out) const;

  TextPattern pattern_;
  std::string content_;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_REPLACEMENT_H_
