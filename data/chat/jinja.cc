// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

bool IsWordChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

absl::Status NoEnd(absl::string_view what, size_t at) {
  return InvalidArgument("the chat template is no whole Jinja template: ", what, " at byte ", at,
                         " has no end");
}

// Reads a string whose opening quote is at `*at`, and sets `*at` after the closing one.
absl::StatusOr<JinjaToken> ReadString(absl::string_view jinja, size_t* at) {
  JinjaToken token;
  token.is_string = true;
  const size_t begin = *at;
  for (size_t i = begin + 1; i < jinja.size(); ++i) {
    if (jinja[i] == jinja[begin]) {
      *at = i + 1;
      return token;
    }
    if (jinja[i] != '\\' || i + 1 == jinja.size()) {
      token.text.push_back(jinja[i]);
      continue;
    }
    const char escaped = jinja[++i];
    switch (escaped) {
      case 'n':
        token.text.push_back('\n');
        break;
      case 't':
        token.text.push_back('\t');
        break;
      case 'r':
        token.text.push_back('\r');
        break;
      case '\\':
      case '\'':
      case '"':
        token.text.push_back(escaped);
        break;
      case '\n':  // continues the line
        break;
      default:
        // As in Python: \x, \u, \N, \7 and the like name a character, and what is no escape stays.
        if (absl::string_view("abfvxuUN01234567").find(escaped) != absl::string_view::npos) {
          token.is_readable = false;
        }
        absl::StrAppend(&token.text, "\\", absl::string_view(&escaped, 1));
    }
  }
  return NoEnd("a string", begin);
}

// Reads a tag from after its opening braces, to after its closing ones. `close` is }} or %}.
absl::StatusOr<std::vector<JinjaToken>> ReadTag(absl::string_view jinja, absl::string_view close,
                                                size_t* at) {
  std::vector<JinjaToken> tokens;
  const size_t begin = *at;
  int depth = 0;
  while (*at < jinja.size()) {
    const absl::string_view rest = jinja.substr(*at);
    const char first = rest.front();
    if (depth == 0 && absl::StartsWith(rest, close)) {
      *at += close.size();
      return tokens;
    }
    if (absl::ascii_isspace(static_cast<unsigned char>(first))) {
      ++*at;
    } else if (first == '\'' || first == '"') {
      ZEROTH_ASSIGN_OR_RETURN(JinjaToken token, ReadString(jinja, at));
      tokens.push_back(std::move(token));
    } else {
      const size_t length =
          IsWordChar(first)
              ? static_cast<size_t>(std::find_if_not(rest.begin(), rest.end(), IsWordChar) -
                                    rest.begin())
              : 1;
      if (first == '{') ++depth;
      if (first == '}' && depth > 0) --depth;
      tokens.push_back({std::string(rest.substr(0, length))});
      *at += length;
    }
  }
  return NoEnd("a tag", begin);
}

// Takes blanks before a block tag off the end, if nothing else is before it in its line.
void StripIndent(std::string& text) {
  const size_t end = text.find_last_not_of(" \t");
  if (end == std::string::npos || text[end] == '\n') text.resize(end + 1);
}

}  // namespace

absl::StatusOr<std::vector<JinjaPart>> SplitJinja(absl::string_view jinja) {
  std::vector<JinjaPart> parts;
  bool strip = false;     // the tag before took the blanks after it
  bool is_block = false;  // the tag before was a statement or a comment
  for (size_t at = 0; at < jinja.size();) {
    size_t open = at;
    while (open < jinja.size() && !absl::StartsWith(jinja.substr(open), "{{") &&
           !absl::StartsWith(jinja.substr(open), "{%") &&
           !absl::StartsWith(jinja.substr(open), "{#")) {
      ++open;
    }
    absl::string_view between = jinja.substr(at, open - at);
    if (strip) between = absl::StripLeadingAsciiWhitespace(between);
    if (is_block && !strip && absl::StartsWith(between, "\n")) between.remove_prefix(1);
    std::string text(between);
    const bool has_tag = open < jinja.size();
    const char sign = open + 2 < jinja.size() ? jinja[open + 2] : ' ';
    const char kind = has_tag ? jinja[open + 1] : ' ';
    if (has_tag && sign == '-') absl::StripTrailingAsciiWhitespace(&text);
    if (has_tag && kind != '{' && sign != '+') StripIndent(text);
    if (!text.empty()) parts.push_back({JinjaPart::Kind::kText, std::move(text), {}});
    if (!has_tag) break;
    at = open + (sign == '-' || sign == '+' ? 3 : 2);
    is_block = kind != '{';
    if (kind == '#') {
      const size_t end = jinja.find("#}", open + 2);
      if (end == absl::string_view::npos) return NoEnd("a comment", open);
      strip = jinja[end - 1] == '-';
      at = end + 2;
      continue;
    }
    JinjaPart part;
    part.kind = is_block ? JinjaPart::Kind::kStatement : JinjaPart::Kind::kExpression;
    ZEROTH_ASSIGN_OR_RETURN(part.tokens, ReadTag(jinja, is_block ? "%}" : "}}", &at));
    const auto ends_with = [&part](absl::string_view minus_or_plus) {
      return !part.tokens.empty() && !part.tokens.back().is_string &&
             part.tokens.back().text == minus_or_plus;
    };
    strip = ends_with("-");
    if (strip || ends_with("+")) part.tokens.pop_back();
    parts.push_back(std::move(part));
  }
  return parts;
}

std::string JinjaCode(absl::Span<const JinjaToken> tokens) {
  std::string code;
  bool after_word = false;
  for (const JinjaToken& token : tokens) {
    const bool is_word = token.is_string || (!token.text.empty() && IsWordChar(token.text[0]));
    const char* const quote = token.is_string ? "'" : "";
    absl::StrAppend(&code, after_word && is_word ? " " : "", quote, token.text, quote);
    after_word = is_word;
  }
  return code;
}

std::vector<JinjaToken> JinjaTerms(absl::Span<const JinjaToken> tokens) {
  std::vector<JinjaToken> terms;
  const auto add = [&terms](absl::Span<const JinjaToken> term) {
    JinjaToken result;
    result.is_string =
        !term.empty() && std::all_of(term.begin(), term.end(),
                                     [](const JinjaToken& token) { return token.is_string; });
    for (const JinjaToken& token : term) {
      if (result.is_string) result.text += token.text;
      if (!token.is_readable) result.is_readable = false;
    }
    if (!result.is_string) result.text = JinjaCode(term);
    terms.push_back(std::move(result));
  };
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].is_string || tokens[i].text.size() != 1) continue;
    const char sign = tokens[i].text[0];
    if (sign == '(' || sign == '[' || sign == '{') ++depth;
    if (sign == ')' || sign == ']' || sign == '}') --depth;
    if (depth != 0 || (sign != '+' && sign != '~')) continue;
    add(tokens.subspan(begin, i - begin));
    begin = i + 1;
  }
  add(tokens.subspan(begin));
  return terms;
}

}  // namespace zeroth
