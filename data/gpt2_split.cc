// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/gpt2_split.h"

#include "absl/strings/match.h"

#include "zeroth/core/base/check.h"
#include "zeroth/data/unicode.h"

namespace zeroth {
namespace {

// Bytes of the longest run of characters of class `wanted` at the start of `text`, and of its last
// character.
struct Run {
  size_t length = 0;
  size_t last_char = 0;
};

Run RunOf(CharClass wanted, absl::string_view text) {
  Run run;
  while (run.length < text.size()) {
    const DecodedChar next = DecodeUtf8(text.substr(run.length));
    if (ClassOf(next.code_point) != wanted) break;
    run.length += next.length;
    run.last_char = next.length;
  }
  return run;
}

size_t ContractionLength(absl::string_view text) {
  for (const absl::string_view suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (absl::StartsWith(text, suffix)) return suffix.size();
  }
  return 0;
}

}  // namespace

size_t Gpt2WordLength(absl::string_view text) {
  ZEROTH_CHECK(!text.empty());
  if (text[0] == '\'') {
    if (const size_t length = ContractionLength(text); length > 0) return length;
  }
  const size_t space = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const CharClass first = ClassOf(DecodeUtf8(text.substr(space)).code_point);
  if (first != CharClass::kSpace) return space + RunOf(first, text.substr(space)).length;

  const Run spaces = RunOf(CharClass::kSpace, text);
  // The last space before a word stays behind: it is either that word's own leading space or a word
  // by itself.
  const bool word_follows = spaces.length < text.size();
  const bool single = spaces.length == spaces.last_char;
  return word_follows && !single ? spaces.length - spaces.last_char : spaces.length;
}

}  // namespace zeroth
