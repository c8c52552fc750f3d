// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/data/chat/jinja/lexer.h"
#include "zeroth/data/chat/jinja/syntax.h"

namespace zeroth {

// Parses expressions by recursive descent, with Jinja's precedences. Keeps the first error and then
// reads only kEnd.
class JinjaExpressionParser {
 public:
  explicit JinjaExpressionParser(std::vector<JinjaToken> tokens) : tokens_(std::move(tokens)) {}

 protected:
  using Kind = JinjaNode::Kind;
  using Token = JinjaToken::Kind;

  // Counts a level of the recursion while it exists.
  class Level {
   public:
    explicit Level(JinjaExpressionParser& parser);
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --parser_.level_; }

   private:
    JinjaExpressionParser& parser_;
  };

  // Parses the expression of {{ }} and {% set %}; refuses a tuple without parentheses.
  JinjaNode Tuple();
  JinjaNode Expression();
  // Parses an expression without a trailing inline `if`.
  JinjaNode Or();

  const JinjaToken& Peek(size_t ahead = 0) const;
  JinjaToken Next();
  void Fail(absl::string_view what);
  void Unexpected(absl::string_view expected);
  bool IsSign(absl::string_view sign, size_t ahead = 0) const;
  bool IsName(absl::string_view name, size_t ahead = 0) const;
  // Consumes the next token if `is_there`, which is returned.
  bool Take(bool is_there);
  void Expect(absl::string_view sign);
  std::string ExpectName();
  JinjaNode Make(Kind kind, std::string text = "", std::vector<JinjaNode> kids = {});
  template <typename... Kids>
  JinjaNode With(Kind kind, std::string text, Kids... kids) {
    std::vector<JinjaNode> list;
    (list.push_back(std::move(kids)), ...);
    return Make(kind, std::move(text), std::move(list));
  }
  const absl::Status& status() const { return status_; }

 private:
  JinjaNode And();
  JinjaNode Not();
  JinjaNode Comparison();
  JinjaNode Sum();
  JinjaNode Concatenation();
  JinjaNode Product();
  JinjaNode Unary(bool filters);
  JinjaNode Primary();
  JinjaNode List(absl::string_view close);
  JinjaNode Map();
  JinjaNode Postfix(JinjaNode value);
  JinjaNode Subscript(JinjaNode object);
  std::vector<JinjaNode> Arguments();
  JinjaNode Filters(JinjaNode value);

  std::vector<JinjaToken> tokens_;
  size_t at_ = 0;
  int level_ = 0;
  absl::Status status_;
};

}  // namespace zeroth
