// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/excerpt.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/unicode.h"

namespace zeroth {
namespace {

constexpr size_t kLongestChar = 4;

bool ContinuesChar(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Returns `text` without the character at its end that a cut has divided.
absl::string_view WithoutDividedChar(absl::string_view text) {
  const size_t valid = ValidUtf8Length(text);
  return text.size() - valid < kLongestChar ? text.substr(0, valid) : text;
}

std::string Escape(absl::string_view text) {
  const bool is_utf8 = ValidUtf8Length(text) == text.size();
  return is_utf8 ? absl::Utf8SafeCHexEscape(text) : absl::CHexEscape(text);
}

}  // namespace

std::string Excerpt(absl::string_view text, size_t most) {
  if (text.size() <= most) return absl::StrCat("\"", Escape(text), "\"");
  return absl::StrCat("\"", Escape(WithoutDividedChar(text.substr(0, most))), "...\"");
}

std::string Shorten(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  return absl::StrCat(WithoutDividedChar(text.substr(0, most)), "...");
}

std::string ExcerptAround(absl::string_view text, size_t position) {
  constexpr size_t kBefore = kExcerptBytes * 2 / 3;
  position = std::min(position, text.size());
  size_t begin = position < kBefore ? 0 : position - kBefore;
  // The excerpt begins at the line of `position` at the earliest.
  if (const size_t line = text.substr(begin, position - begin).rfind('\n');
      line != absl::string_view::npos) {
    begin += line + 1;
  }
  const bool is_cut = begin > 0 && text[begin - 1] != '\n';
  for (size_t i = 1; is_cut && i < kLongestChar && begin < position && ContinuesChar(text[begin]);
       ++i) {
    ++begin;
  }
  absl::string_view shown = text.substr(begin);
  shown = shown.substr(0, std::max(position - begin, shown.find('\n')));
  return absl::StrCat(is_cut ? "..." : "", Excerpt(shown));
}

}  // namespace zeroth
