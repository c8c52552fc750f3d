// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja/text.h"

#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/unicode.h"

namespace zeroth {

bool IsPythonSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

absl::string_view StripPython(absl::string_view text, std::optional<absl::string_view> chars,
                              bool left, bool right) {
  const auto strips = [&](absl::string_view c) {
    return chars.has_value() ? absl::StrContains(*chars, c)
                             : IsPythonSpace(DecodeUtf8(c).code_point);
  };
  while (left && !text.empty()) {
    const size_t length = DecodeUtf8(text).length;
    if (!strips(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    // Bytes that continue a character are 10xxxxxx.
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!strips(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::string Excerpt(absl::string_view text) {
  constexpr size_t kShown = 80;
  const absl::string_view shown = text.substr(0, kShown);
  return absl::StrCat("\"", absl::Utf8SafeCEscape(shown.substr(0, ValidUtf8Length(shown))),
                      shown.size() < text.size() ? "\"..." : "\"");
}

}  // namespace zeroth
