// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja/lexer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

using Kind = JinjaToken::Kind;

bool IsNameChar(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<JinjaToken>> Split() {
    while (at_ < source_.size()) ZEROTH_RETURN_IF_ERROR(ReadTextAndTag());
    Add(Kind::kEnd, "the template's end");
    return std::move(tokens_);
  }

 private:
  void Add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void Advance(size_t count) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + at_, source_.begin() + at_ + count, '\n'));
    at_ += count;
  }

  absl::Status Error(absl::string_view what) const {
    return InvalidArgument("line ", line_, ": ", what);
  }

  absl::Status ReadTextAndTag() {
    const bool begins_line = at_ == 0 || (source_[at_ - 1] == '\n' && may_begin_line_);
    size_t open = at_;
    while (open < source_.size() && !(source_[open] == '{' && open + 1 < source_.size() &&
                                      absl::StrContains("{%#", source_[open + 1]))) {
      ++open;
    }
    const bool has_tag = open < source_.size();
    const char kind = has_tag ? source_[open + 1] : ' ';
    const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
    absl::string_view text = source_.substr(at_, open - at_);
    if (has_tag && sign == '-') {
      text = StripPython(text, std::nullopt, /*left=*/false, /*right=*/true);
    } else if (has_tag && kind != '{' && sign != '+') {
      const size_t line = text.rfind('\n') + 1;  // 0 if there is none
      if ((line > 0 || begins_line) &&
          text.find_first_not_of(" \t", line) == absl::string_view::npos) {
        text = text.substr(0, line);
      }
    }
    if (!text.empty()) Add(Kind::kText, std::string(text));
    Advance(open - at_);
    if (!has_tag) return absl::OkStatus();
    if (kind == '#') {
      const size_t end = source_.find("#}", at_ + 2);
      if (end == absl::string_view::npos) return Error("a comment has no end");
      const char last = end > at_ + 2 ? source_[end - 1] : ' ';
      Advance(end + 2 - at_);
      TakeBlanks(last, /*is_block=*/true);
      return absl::OkStatus();
    }
    return ReadTag(kind == '%', sign == '-' || sign == '+' ? 3 : 2);
  }

  // Removes the whitespace after a tag that its last sign, or trim_blocks, asks for.
  void TakeBlanks(char sign, bool is_block) {
    may_begin_line_ = true;
    if (sign == '-') {
      const absl::string_view rest = source_.substr(at_);
      Advance(rest.size() - StripPython(rest, std::nullopt, true, false).size());
    } else if (is_block && sign != '+' && at_ < source_.size() && source_[at_] == '\n') {
      Advance(1);
    } else {
      may_begin_line_ = false;
    }
  }

  absl::Status ReadTag(bool is_block, size_t opening) {
    Add(is_block ? Kind::kOpenBlock : Kind::kOpenPrint, is_block ? "{%" : "{{");
    Advance(opening);
    const absl::string_view close = is_block ? "%}" : "}}";
    std::string open_brackets;
    for (;;) {
      const absl::string_view blanks = source_.substr(at_);
      Advance(blanks.size() - StripPython(blanks, std::nullopt, true, false).size());
      const absl::string_view rest = source_.substr(at_);
      if (rest.empty()) return Error(absl::StrCat("a tag has no end, expected ", close));
      const char first = rest[0];
      const bool has_sign = first == '-' || (first == '+' && is_block);
      if (open_brackets.empty() && absl::StartsWith(rest.substr(has_sign ? 1 : 0), close)) {
        Add(is_block ? Kind::kCloseBlock : Kind::kClosePrint, std::string(close));
        Advance(has_sign ? 3 : 2);
        TakeBlanks(has_sign ? first : ' ', is_block);
        return absl::OkStatus();
      }
      if (first == '\'' || first == '"') {
        ZEROTH_RETURN_IF_ERROR(ReadString());
        continue;
      }
      if (IsNameChar(first)) {
        const bool is_number = IsDigit(first);
        size_t size = 1;
        while (size < rest.size() && IsNameChar(rest[size])) ++size;
        const absl::string_view word = rest.substr(0, size);
        if (is_number &&
            (!std::all_of(word.begin(), word.end(), IsDigit) || size > 15 ||
             (size + 1 < rest.size() && rest[size] == '.' && IsDigit(rest[size + 1])))) {
          return Error(absl::StrCat("the number ", word, " is not a supported integer"));
        }
        Add(is_number ? Kind::kInteger : Kind::kName, std::string(word));
        Advance(size);
        continue;
      }
      size_t size = 1;
      for (const absl::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
        if (absl::StartsWith(rest, two)) size = 2;
      }
      if (size == 1 && !absl::StrContains("+-*/%~<>=.,:|()[]{}", first)) {
        return Error(absl::StrCat("the character ", Excerpt(rest.substr(0, 4)), " in a tag"));
      }
      if (absl::StrContains("([{", first)) open_brackets.push_back(first);
      if (absl::StrContains(")]}", first)) {
        const char opened = first == ')' ? '(' : first == ']' ? '[' : '{';
        if (open_brackets.empty() || open_brackets.back() != opened) {
          return Error(absl::StrCat("a '", rest.substr(0, 1), "' without its opening bracket"));
        }
        open_brackets.pop_back();
      }
      Add(Kind::kSign, std::string(rest.substr(0, size)));
      Advance(size);
    }
  }

  // Python's escapes.
  absl::Status ReadString() {
    const char quote = source_[at_];
    std::string text;
    for (size_t i = at_ + 1; i < source_.size(); ++i) {
      const char c = source_[i];
      if (c == quote) {
        Add(Kind::kString, std::move(text));
        Advance(i + 1 - at_);
        return absl::OkStatus();
      }
      if (c != '\\' || i + 1 == source_.size()) {
        text.push_back(c);
        continue;
      }
      static constexpr std::pair<char, char> kEscapes[] = {
          {'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'}, {'\'', '\''},
          {'"', '"'},  {'a', '\a'}, {'b', '\b'}, {'f', '\f'},  {'v', '\v'}};
      const char escaped = source_[++i];
      const auto* const known = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                             [&](auto each) { return each.first == escaped; });
      const size_t digits = escaped == 'x' ? 2 : escaped == 'u' ? 4 : escaped == 'U' ? 8 : 0;
      if (known != std::end(kEscapes)) {
        text.push_back(known->second);
      } else if (digits > 0) {
        uint32_t code = 0;
        const absl::string_view hex = source_.substr(i + 1, digits);
        const bool is_hex = hex.size() == digits && std::all_of(hex.begin(), hex.end(), [](char d) {
                              return absl::ascii_isxdigit(static_cast<unsigned char>(d));
                            });
        if (!is_hex || !absl::SimpleHexAtoi(hex, &code) || code > 0x10FFFF ||
            (code >= 0xD800 && code < 0xE000)) {
          return Error(absl::StrCat("the escape \\", source_.substr(i, digits + 1)));
        }
        AppendUtf8(code, &text);
        i += digits;
      } else if (escaped == 'N' || IsDigit(escaped)) {
        return Error(absl::StrCat("the escape \\", source_.substr(i, 1)));
      } else if (escaped != '\n') {  // which continues the line
        text.append({'\\', escaped});
      }
    }
    return Error("a string has no end");
  }

  const absl::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool may_begin_line_ = true;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<JinjaToken>> SplitJinja(absl::string_view jinja) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  if (jinja.size() > kMaxBytes) {
    return InvalidArgument("it has ", jinja.size(), " bytes, expected at most ", kMaxBytes);
  }
  if (ValidUtf8Length(jinja) != jinja.size()) return InvalidArgument("it is not UTF-8");
  std::string source = absl::StrReplaceAll(jinja, {{"\r\n", "\n"}, {"\r", "\n"}});
  if (absl::EndsWith(source, "\n")) source.pop_back();
  return Lexer(source).Split();
}

}  // namespace zeroth
