// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// A token of a tag: a string, or a word, number or sign of code.
struct JinjaToken {
  std::string text;  // of a string: its value
  bool is_string = false;
  bool is_readable = true;  // false: a string with an escape that is not known here
};

// A text between tags, or a tag: {{ an expression }} or {% a statement %}.
struct JinjaPart {
  enum class Kind { kText, kExpression, kStatement };

  Kind kind = Kind::kText;
  std::string text;                // of a text
  std::vector<JinjaToken> tokens;  // of a tag
};

// Splits a template, without comments, and without the blanks that transformers' settings
// (trim_blocks, lstrip_blocks) and the tags' minus signs take away. InvalidArgument if a tag or a
// string has no end.
absl::StatusOr<std::vector<JinjaPart>> SplitJinja(absl::string_view jinja);

// The code that tokens spell: 'strings' in single quotes, and one space between two words.
std::string JinjaCode(absl::Span<const JinjaToken> tokens);

// What `+` and `~` join outside of brackets: each a string, or code. Adjacent strings are one.
std::vector<JinjaToken> JinjaTerms(absl::Span<const JinjaToken> tokens);

}  // namespace zeroth
