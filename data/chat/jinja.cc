// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

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

// A word, number, sign or string of code.
using Token = JinjaTerm;
using Tokens = absl::Span<const Token>;

bool IsCode(const Token& token, absl::string_view text) {
  return !token.is_string && token.text == text;
}

// Reads a string whose opening quote is at `*at`, and sets `*at` after the closing one.
absl::StatusOr<Token> ReadString(absl::string_view jinja, size_t* at) {
  static constexpr std::pair<char, char> kEscapes[] = {{'n', '\n'},  {'t', '\t'},  {'r', '\r'},
                                                       {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};
  Token token = {.is_string = true};
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
    const auto* const known = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                           [&](auto each) { return each.first == escaped; });
    if (known != std::end(kEscapes)) {
      token.text.push_back(known->second);
    } else if (escaped != '\n') {  // which continues the line
      // As in Python: \x, \u, \N, \7 and the like name a character, and what is no escape stays.
      if (absl::StrContains("abfvxuUN01234567", escaped)) token.is_readable = false;
      absl::StrAppend(&token.text, "\\", absl::string_view(&escaped, 1));
    }
  }
  return NoEnd("a string", begin);
}

// Reads a tag from after its opening braces, to after its closing ones. `close` is }} or %}.
absl::StatusOr<std::vector<Token>> ReadTag(absl::string_view jinja, absl::string_view close,
                                           size_t* at) {
  std::vector<Token> tokens;
  const size_t begin = *at;
  int depth = 0;
  while (*at < jinja.size()) {
    const absl::string_view rest = jinja.substr(*at);
    const char first = rest.front();
    if (depth == 0 && absl::StartsWith(rest, close)) {
      *at += close.size();
      return tokens;
    }
    if (first == '\'' || first == '"') {
      ZEROTH_ASSIGN_OR_RETURN(tokens.emplace_back(), ReadString(jinja, at));
      continue;
    }
    const auto* const end = std::find_if_not(rest.begin(), rest.end(), IsWordChar);
    absl::string_view token(rest.data(),
                            std::max<size_t>(1, static_cast<size_t>(end - rest.begin())));
    *at += token.size();
    if (first == '{') ++depth;
    if (first == '}' && depth > 0) --depth;
    const bool is_content = absl::ConsumeSuffix(&token, ".content");
    if (!absl::StripAsciiWhitespace(token).empty()) tokens.push_back({std::string(token)});
    if (is_content) tokens.insert(tokens.end(), {{"["}, {"content", true}, {"]"}});
  }
  return NoEnd("a tag", begin);
}

std::string CodeOf(Tokens tokens) {
  std::string code;
  bool after_word = false;
  for (const Token& token : tokens) {
    const bool is_word = token.is_string || (!token.text.empty() && IsWordChar(token.text[0]));
    if (after_word && is_word) code += ' ';
    code += token.is_string
                ? absl::StrCat("'", absl::StrReplaceAll(token.text, {{"'", "\\'"}}), "'")
                : token.text;
    after_word = is_word;
  }
  return code;
}

JinjaTerm TermOf(Tokens tokens) {
  JinjaTerm term;
  term.is_string = !tokens.empty() && std::all_of(tokens.begin(), tokens.end(),
                                                  [](const Token& each) { return each.is_string; });
  for (const Token& token : tokens) {
    if (term.is_string) term.text += token.text;
    if (!token.is_readable) term.is_readable = false;
  }
  if (!term.is_string) term.text = CodeOf(tokens);
  return term;
}

std::vector<JinjaTerm> TermsOf(Tokens tokens) {
  std::vector<JinjaTerm> terms;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    if (IsCode(token, "(") || IsCode(token, "[") || IsCode(token, "{")) ++depth;
    if (IsCode(token, ")") || IsCode(token, "]") || IsCode(token, "}")) --depth;
    if (depth != 0 || (!IsCode(token, "+") && !IsCode(token, "~"))) continue;
    terms.push_back(TermOf(tokens.subspan(begin, i - begin)));
    begin = i + 1;
  }
  terms.push_back(TermOf(tokens.subspan(begin)));
  return terms;
}

JinjaPart StatementOf(Tokens tokens) {
  JinjaPart part = {.kind = JinjaPart::Kind::kStatement, .text = CodeOf(tokens)};
  if (!tokens.empty() && !tokens[0].is_string) part.keyword = tokens[0].text;
  const auto sign = std::find_if(tokens.begin(), tokens.end(),
                                 [](const Token& token) { return IsCode(token, "="); });
  if (part.keyword == "set" && sign != tokens.end()) {
    const auto length = static_cast<size_t>(sign - tokens.begin());
    part.variable = CodeOf(tokens.subspan(1, length - 1));
    part.terms = TermsOf(tokens.subspan(length + 1));
  }
  return part;
}

JinjaPart ExpressionOf(Tokens tokens) {
  JinjaPart part = {.kind = JinjaPart::Kind::kExpression, .terms = TermsOf(tokens)};
  part.text = absl::StrJoin(part.terms, "+", [](std::string* out, const JinjaTerm& term) {
    out->append(CodeOf(absl::MakeConstSpan(&term, 1)));
  });
  return part;
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
    if (is_block && !strip) absl::ConsumePrefix(&between, "\n");
    std::string text(between);
    const bool has_tag = open < jinja.size();
    const char sign = open + 2 < jinja.size() ? jinja[open + 2] : ' ';
    const char kind = has_tag ? jinja[open + 1] : ' ';
    if (has_tag && sign == '-') absl::StripTrailingAsciiWhitespace(&text);
    if (has_tag && kind != '{' && sign != '+') StripIndent(text);
    if (!text.empty()) parts.push_back({.text = text, .terms = {{text, /*is_string=*/true}}});
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
    ZEROTH_ASSIGN_OR_RETURN(std::vector<Token> tokens, ReadTag(jinja, is_block ? "%}" : "}}", &at));
    strip = !tokens.empty() && IsCode(tokens.back(), "-");
    if (strip || (!tokens.empty() && IsCode(tokens.back(), "+"))) tokens.pop_back();
    parts.push_back(is_block ? StatementOf(tokens) : ExpressionOf(tokens));
  }
  return parts;
}

}  // namespace zeroth
