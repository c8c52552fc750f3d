// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The regular expressions of tokenizer.json, matched by PCRE2 and its just-in-time compiler.

#ifndef ZEROTH_DATA_TOKENIZER_REGEX_H_
#define ZEROTH_DATA_TOKENIZER_REGEX_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// GPT-2's pattern, which a ByteLevel pre-tokenizer means by use_regex.
inline constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// An expression as Oniguruma, which Hugging Face uses, understands it. Immutable and thread-safe.
class Regex {
 public:
  // Steps that the matcher may take for one match. A match of any usual pattern takes about one for
  // each character of a word; an expression that backtracks without end is stopped.
  static constexpr uint32_t kMatchLimit = 50'000'000;

  // InvalidArgument quotes the pattern and what is wrong, or names what the two libraries read
  // differently (\h, nested classes, ...).
  static absl::StatusOr<Regex> Compile(absl::string_view pattern);

  const std::string& pattern() const { return pattern_; }

  // Working memory of one thread's matches.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(Scratch&&) noexcept;

   private:
    friend class Regex;
    struct Memory;
    std::unique_ptr<Memory> memory_;
  };

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    bool found = false;
  };
  // The first match of `text`, which is valid UTF-8, at `from` or behind it; [begin, end) counts
  // bytes of `text`. ResourceExhausted if it takes more than kMatchLimit steps.
  absl::StatusOr<Match> Find(absl::string_view text, size_t from, Scratch& scratch) const;

 private:
  explicit Regex(absl::string_view pattern) : pattern_(pattern) {}

  std::string pattern_;
  std::shared_ptr<void> code_;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKENIZER_REGEX_H_
