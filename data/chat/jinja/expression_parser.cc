// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja/expression_parser.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

// Limit of trees, and of the recursion: each level uses a few frames of the stack.
constexpr int kMaxDepth = 200;

}  // namespace

JinjaExpressionParser::Level::Level(JinjaExpressionParser& parser) : parser_(parser) {
  if (++parser.level_ > kMaxDepth) parser.Fail("expressions or statements nest too deeply");
}

const JinjaToken& JinjaExpressionParser::Peek(size_t ahead) const {
  return status_.ok() ? tokens_[std::min(at_ + ahead, tokens_.size() - 1)] : tokens_.back();
}

JinjaToken JinjaExpressionParser::Next() {
  JinjaToken token = Peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

void JinjaExpressionParser::Fail(absl::string_view what) {
  if (status_.ok()) status_ = InvalidArgument("line ", Peek().line, ": ", what);
}

void JinjaExpressionParser::Unexpected(absl::string_view expected) {
  Fail(absl::StrCat("found ", Excerpt(Peek().text), ", expected ", expected));
}

bool JinjaExpressionParser::IsSign(absl::string_view sign, size_t ahead) const {
  return Peek(ahead).kind == Token::kSign && Peek(ahead).text == sign;
}

bool JinjaExpressionParser::IsName(absl::string_view name, size_t ahead) const {
  return Peek(ahead).kind == Token::kName && Peek(ahead).text == name;
}

bool JinjaExpressionParser::Take(bool is_there) {
  if (is_there) Next();
  return is_there;
}

void JinjaExpressionParser::Expect(absl::string_view sign) {
  if (!Take(IsSign(sign))) Unexpected(absl::StrCat("'", sign, "'"));
}

std::string JinjaExpressionParser::ExpectName() {
  if (Peek().kind != Token::kName) Unexpected("a name");
  return Next().text;
}

JinjaNode JinjaExpressionParser::Make(Kind kind, std::string text, std::vector<JinjaNode> kids) {
  JinjaNode node = {.kind = kind, .line = Peek().line, .text = std::move(text)};
  for (const JinjaNode& kid : kids) node.depth = std::max(node.depth, kid.depth + 1);
  if (node.depth > kMaxDepth) Fail("expressions or statements nest too deeply");
  node.kids = std::move(kids);
  return node;
}

JinjaNode JinjaExpressionParser::Tuple() {
  JinjaNode first = Expression();
  if (!IsSign(",")) return first;
  Fail("a list without brackets is not known here");
  return first;
}

JinjaNode JinjaExpressionParser::Expression() {
  const Level level(*this);
  JinjaNode value = Or();
  while (Take(IsName("if"))) {
    JinjaNode condition = Or();
    JinjaNode otherwise = Take(IsName("else")) ? Expression() : Make(Kind::kNothing);
    value = With(Kind::kChoice, "", std::move(value), std::move(condition), std::move(otherwise));
  }
  return value;
}

JinjaNode JinjaExpressionParser::Or() {
  JinjaNode value = And();
  while (Take(IsName("or"))) value = With(Kind::kBinary, "or", std::move(value), And());
  return value;
}

JinjaNode JinjaExpressionParser::And() {
  JinjaNode value = Not();
  while (Take(IsName("and"))) value = With(Kind::kBinary, "and", std::move(value), Not());
  return value;
}

JinjaNode JinjaExpressionParser::Not() {
  const Level level(*this);
  if (Take(IsName("not"))) return With(Kind::kUnary, "not", Not());
  return Comparison();
}

JinjaNode JinjaExpressionParser::Comparison() {
  JinjaNode value = Sum();
  std::string found;
  for (;;) {
    std::string sign;
    for (const absl::string_view each : {"==", "!=", "<", "<=", ">", ">="}) {
      if (IsSign(each)) sign = std::string(each);
    }
    if (IsName("in")) sign = "in";
    if (IsName("not") && IsName("in", 1)) sign = "not in";
    if (sign.empty()) return value;
    if (!found.empty()) Fail("a chain of comparisons is not known here");
    found = sign;
    Next();
    if (sign == "not in") Next();
    value = With(Kind::kBinary, sign, std::move(value), Sum());
  }
}

JinjaNode JinjaExpressionParser::Sum() {
  JinjaNode value = Concatenation();
  while (IsSign("+") || IsSign("-")) {
    std::string sign = Next().text;
    value = With(Kind::kBinary, std::move(sign), std::move(value), Concatenation());
  }
  return value;
}

JinjaNode JinjaExpressionParser::Concatenation() {
  JinjaNode value = Product();
  while (Take(IsSign("~"))) value = With(Kind::kBinary, "~", std::move(value), Product());
  return value;
}

JinjaNode JinjaExpressionParser::Product() {
  JinjaNode value = Unary(/*filters=*/true);
  while (IsSign("*") || IsSign("/") || IsSign("//") || IsSign("%")) {
    std::string sign = Next().text;
    value = With(Kind::kBinary, std::move(sign), std::move(value), Unary(/*filters=*/true));
  }
  if (IsSign("**")) Fail("the operator ** is not known here");
  return value;
}

JinjaNode JinjaExpressionParser::Unary(bool filters) {
  const Level level(*this);
  JinjaNode value =
      Take(IsSign("-")) ? With(Kind::kUnary, "-", Unary(/*filters=*/false)) : Postfix(Primary());
  return filters ? Filters(std::move(value)) : value;
}

JinjaNode JinjaExpressionParser::Primary() {
  const JinjaToken token = Next();
  switch (token.kind) {
    case Token::kName:
      return Make(Kind::kName, token.text);
    case Token::kInteger: {
      JinjaNode node = Make(Kind::kInteger, token.text);
      if (!absl::SimpleAtoi(token.text, &node.integer)) Fail("a number that is not known here");
      return node;
    }
    case Token::kString: {
      std::string text = token.text;
      while (Peek().kind == Token::kString) text += Next().text;
      return Make(Kind::kString, std::move(text));
    }
    case Token::kSign:
      if (token.text == "(") return List(")");
      if (token.text == "[") return List("]");
      if (token.text == "{") return Map();
      break;
    default:
      break;
  }
  Fail(absl::StrCat("found ", Excerpt(token.text), ", expected a value"));
  return {};
}

JinjaNode JinjaExpressionParser::List(absl::string_view close) {
  std::vector<JinjaNode> items;
  bool is_list = close == "]" || IsSign(")");
  while (status_.ok() && !IsSign(close)) {
    items.push_back(Expression());
    if (!Take(IsSign(","))) break;
    is_list = true;
  }
  Expect(close);
  if (!is_list && items.size() == 1) return std::move(items[0]);
  return Make(Kind::kList, "", std::move(items));
}

JinjaNode JinjaExpressionParser::Map() {
  std::vector<JinjaNode> items;
  while (status_.ok() && !IsSign("}")) {
    items.push_back(Expression());
    Expect(":");
    items.push_back(Expression());
    if (!Take(IsSign(","))) break;
  }
  Expect("}");
  return Make(Kind::kMap, "", std::move(items));
}

JinjaNode JinjaExpressionParser::Postfix(JinjaNode value) {
  for (;;) {
    if (Take(IsSign("."))) {
      if (Peek().kind == Token::kInteger) Fail("an index behind a point is not known here");
      std::string name = ExpectName();
      value = With(Kind::kMember, std::move(name), std::move(value));
    } else if (Take(IsSign("["))) {
      value = Subscript(std::move(value));
    } else if (Take(IsSign("("))) {
      std::vector<JinjaNode> kids = Arguments();
      kids.insert(kids.begin(), std::move(value));
      value = Make(Kind::kCall, "", std::move(kids));
    } else {
      return value;
    }
  }
}

JinjaNode JinjaExpressionParser::Subscript(JinjaNode object) {
  std::vector<JinjaNode> parts;
  bool is_slice = false;
  for (;;) {
    const bool is_empty = IsSign(":") || IsSign("]");
    parts.push_back(is_empty ? Make(Kind::kNothing) : Expression());
    if (!Take(IsSign(":"))) break;
    is_slice = true;
  }
  Expect("]");
  if (parts.size() > 3) Fail("a slice has more than three parts");
  if (!is_slice && parts[0].kind == Kind::kNothing) Fail("an empty subscript");
  parts.resize(is_slice ? 3 : 1);
  parts.insert(parts.begin(), std::move(object));
  return Make(is_slice ? Kind::kSlice : Kind::kIndex, "", std::move(parts));
}

// Parses the arguments after an opening parenthesis, and the closing one.
std::vector<JinjaNode> JinjaExpressionParser::Arguments() {
  std::vector<JinjaNode> list;
  while (status_.ok() && !IsSign(")")) {
    if (Peek().kind == Token::kName && IsSign("=", 1)) {
      std::string name = Next().text;
      Next();
      list.push_back(With(Kind::kKeyword, std::move(name), Expression()));
    } else {
      list.push_back(Expression());
    }
    if (!Take(IsSign(","))) break;
  }
  Expect(")");
  return list;
}

JinjaNode JinjaExpressionParser::Filters(JinjaNode value) {
  for (;;) {
    std::vector<JinjaNode> kids;
    kids.push_back(std::move(value));
    const auto add = [&kids](std::vector<JinjaNode> more) {
      std::move(more.begin(), more.end(), std::back_inserter(kids));
    };
    if (Take(IsSign("|"))) {
      std::string name = ExpectName();
      if (Take(IsSign("("))) add(Arguments());
      value = Make(Kind::kFilter, std::move(name), std::move(kids));
    } else if (Take(IsName("is"))) {
      const bool negated = Take(IsName("not"));
      std::string name = ExpectName();
      const Token next = Peek().kind;
      if (Take(IsSign("("))) {
        add(Arguments());
      } else if (IsSign("[") || IsSign("{") || next == Token::kString || next == Token::kInteger ||
                 (next == Token::kName && !IsName("and") && !IsName("or") && !IsName("else") &&
                  !IsName("if") && !IsName("is"))) {
        kids.push_back(Postfix(Primary()));
      }
      value = Make(Kind::kTest, std::move(name), std::move(kids));
      if (negated) value = With(Kind::kUnary, "not", std::move(value));
    } else if (Take(IsSign("("))) {
      std::vector<JinjaNode> arguments = Arguments();
      add(std::move(arguments));
      value = Make(Kind::kCall, "", std::move(kids));
    } else {
      return std::move(kids[0]);
    }
  }
}

}  // namespace zeroth
