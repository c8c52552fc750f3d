// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

// One of what `+` and `~` join outside of brackets: a string, or code. Adjacent strings are one.
struct JinjaTerm {
  std::string text{};  // of a string: its value; x.content is x['content']
  bool is_string = false;
  bool is_readable = true;  // false: a string in it has an escape that is not known here
};

// A text between tags, or a tag: {{ an expression }} or {% a statement %}.
struct JinjaPart {
  enum class Kind { kText, kExpression, kStatement };

  Kind kind = Kind::kText;
  // The text, or the code: 'strings' in single quotes, one space between two words, and in an
  // expression `+` between two terms.
  std::string text{};
  std::string keyword{};   // of a statement: its first word
  std::string variable{};  // of {% set variable = ... %}, otherwise empty
  // Of a text: it alone. Of an expression, and of what a variable is set to.
  std::vector<JinjaTerm> terms{};
};

// Splits a template, without comments, and without the blanks that transformers' settings
// (trim_blocks, lstrip_blocks) and the tags' minus signs take away. InvalidArgument if a tag or a
// string has no end.
absl::StatusOr<std::vector<JinjaPart>> SplitJinja(absl::string_view jinja);

}  // namespace zeroth
