// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Regular expressions of tokenizer.json, matched by PCRE2 and its just-in-time compiler.

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace zeroth {

// GPT-2's pattern, which a ByteLevel pre-tokenizer with use_regex applies.
inline constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// An expression in the syntax of Oniguruma, which Hugging Face uses. Immutable and thread-safe.
class Regex {
 public:
  // The maximum number of steps of one match. Usual patterns take about one per character of a
  // word; this stops an expression that backtracks without end.
  static constexpr uint32_t kMatchLimit = 50'000'000;

  // InvalidArgument quotes the pattern and what is wrong. Unimplemented names syntax that the two
  // libraries read differently (\h, nested classes, ...).
  static absl::StatusOr<Regex> Compile(absl::string_view pattern);

  const std::string& pattern() const { return pattern_; }

  // Working memory for matches of one thread.
  class Scratch {
   public:
    Scratch();

   private:
    friend class Regex;
    using Owned = std::unique_ptr<void, void (*)(void*)>;  // by PCRE2
    Owned match_;
    Owned context_;
    Owned stack_;
  };

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    bool found = false;
  };
  // Returns the first match in `text`, which is valid UTF-8, at or after `from`; [begin, end) are
  // bytes of `text`. ResourceExhausted after kMatchLimit steps.
  absl::StatusOr<Match> Find(absl::string_view text, size_t from, Scratch& scratch) const;

 private:
  explicit Regex(absl::string_view pattern) : pattern_(pattern) {}

  std::string pattern_;
  std::shared_ptr<void> code_;
  bool is_compiled_ = false;
};

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

  // Visits the matches in `text` from the left. After an empty one the search continues after the
  // next character. Errors of Regex::Find and of `visit`.
  absl::Status ForEachMatch(absl::string_view text, Regex::Scratch& scratch,
                            absl::FunctionRef<absl::Status(size_t begin, size_t end)> visit) const;

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

  // Replaces every match in `text`. Expressions apply to valid UTF-8 only.
  absl::Status Apply(std::string* text, Regex::Scratch& scratch) const;

 private:
  absl::Status AppendReplaced(absl::string_view text, Regex::Scratch& scratch,
                              std::string* out) const;

  TextPattern pattern_;
  std::string content_;
};

}  // namespace zeroth
