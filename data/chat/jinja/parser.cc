// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/jinja/expression_parser.h"
#include "zeroth/data/chat/jinja/lexer.h"
#include "zeroth/data/chat/jinja/syntax.h"

namespace zeroth {
namespace {

class Parser : public JinjaExpressionParser {
 public:
  using JinjaExpressionParser::JinjaExpressionParser;

  absl::StatusOr<JinjaNode> Parse() {
    JinjaNode body = Body({});
    if (status().ok() && Peek().kind != Token::kEnd) Unexpected("text or a tag");
    if (!status().ok()) return status();
    return body;
  }

 private:
  void ExpectClose() {
    if (!Take(Peek().kind == Token::kCloseBlock)) Unexpected("the tag's end, %}");
  }

  // Statements up to a block tag whose first word is one of `ends`, which is left.
  JinjaNode Body(std::initializer_list<absl::string_view> ends) {
    const Level level(*this);
    std::vector<JinjaNode> list;
    while (status().ok() && Peek().kind != Token::kEnd) {
      if (Peek().kind == Token::kText) {
        list.push_back(Make(Kind::kText, Peek().text));
        Next();
      } else if (Take(Peek().kind == Token::kOpenPrint)) {
        JinjaNode value = Tuple();
        list.push_back(With(Kind::kPrint, "", std::move(value)));
        if (!Take(Peek().kind == Token::kClosePrint)) Unexpected("the tag's end, }}");
      } else {
        if (std::find(ends.begin(), ends.end(), Peek(1).text) != ends.end()) break;
        Next();
        Statement(list);
      }
    }
    return Make(Kind::kBody, "", std::move(list));
  }

  // The tag that ends a body: {% name %}.
  void End(absl::string_view name) {
    Next();
    if (!Take(IsName(name))) Unexpected(absl::StrCat("{% ", name, " %}"));
    if (name == "endmacro") Take(Peek().kind == Token::kName);
    ExpectClose();
  }

  void Statement(std::vector<JinjaNode>& list) {
    const std::string word = Peek().text;
    const bool is_name = Peek().kind == Token::kName;
    if (is_name && word == "if") return list.push_back(If());
    if (is_name && word == "for") return list.push_back(For());
    if (is_name && word == "set") return list.push_back(Set());
    if (is_name && word == "macro") return list.push_back(Macro());
    if (is_name && (word == "break" || word == "continue")) {
      if (loops_ == 0) Fail(absl::StrCat("{% ", word, " %} outside of a loop"));
      Next();
      list.push_back(Make(word == "break" ? Kind::kBreak : Kind::kContinue));
      return ExpectClose();
    }
    if (is_name && word == "generation") {  // marks what is trained, and writes its body
      Next();
      ExpectClose();
      list.push_back(With(Kind::kGeneration, "", Body({"endgeneration"})));
      return End("endgeneration");
    }
    Fail(absl::StrCat("the tag {% ", word, " %} is not known here"));
  }

  JinjaNode If() {
    std::vector<JinjaNode> kids;
    do {
      Next();
      kids.push_back(Expression());
      ExpectClose();
      kids.push_back(Body({"elif", "else", "endif"}));
      if (IsName("elif", 1)) Next();
    } while (status().ok() && IsName("elif"));
    if (IsName("else", 1)) {
      Next();
      Next();
      ExpectClose();
      kids.push_back(Body({"endif"}));
    }
    End("endif");
    return Make(Kind::kIf, "", std::move(kids));
  }

  JinjaNode For() {
    Next();
    const bool in_brackets = Take(IsSign("("));
    std::vector<std::string> names = {ExpectName()};
    while (Take(IsSign(","))) names.push_back(ExpectName());
    if (in_brackets) Expect(")");
    if (!Take(IsName("in"))) Unexpected("in");
    JinjaNode iterable = Or();
    if (IsSign(",")) Fail("a loop over a list without brackets is not known here");
    JinjaNode filter = Take(IsName("if")) ? Expression() : Make(Kind::kNothing);
    if (IsName("recursive")) Fail("a recursive loop is not known here");
    ExpectClose();
    ++loops_;
    JinjaNode body = Body({"else", "endfor"});
    --loops_;
    JinjaNode otherwise = Make(Kind::kNothing);
    if (IsName("else", 1)) {
      Next();
      Next();
      ExpectClose();
      otherwise = Body({"endfor"});
    }
    End("endfor");
    JinjaNode node = With(Kind::kFor, "", std::move(iterable), std::move(filter), std::move(body),
                          std::move(otherwise));
    node.names = std::move(names);
    return node;
  }

  JinjaNode Set() {
    Next();
    JinjaNode target = Make(Kind::kName, ExpectName());
    if (Take(IsSign("."))) {
      std::string member = ExpectName();
      target = With(Kind::kMember, std::move(member), std::move(target));
    }
    if (IsSign(",")) Fail("{% set %} of several names is not known here");
    if (Take(IsSign("="))) {
      JinjaNode value = Tuple();
      ExpectClose();
      return With(Kind::kSet, "", std::move(target), std::move(value));
    }
    if (IsSign("|")) Fail("a filter of a {% set %} block is not known here");
    ExpectClose();
    JinjaNode body = Body({"endset"});
    End("endset");
    return With(Kind::kSetBlock, "", std::move(target), std::move(body));
  }

  JinjaNode Macro() {
    Next();
    std::string name = ExpectName();
    std::vector<std::string> parameters;
    std::vector<JinjaNode> kids(1);
    Expect("(");
    while (status().ok() && !IsSign(")")) {
      parameters.push_back(ExpectName());
      if (Take(IsSign("="))) {
        kids.push_back(Expression());
      } else if (kids.size() > 1) {
        Unexpected("a default value");
      }
      if (!Take(IsSign(","))) break;
    }
    Expect(")");
    ExpectClose();
    const int loops = std::exchange(loops_, 0);
    kids[0] = Body({"endmacro"});
    loops_ = loops;
    End("endmacro");
    JinjaNode node = Make(Kind::kMacro, std::move(name), std::move(kids));
    node.names = std::move(parameters);
    return node;
  }

  int loops_ = 0;
};

}  // namespace

absl::StatusOr<JinjaNode> ParseJinja(absl::string_view jinja) {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<JinjaToken> tokens, SplitJinja(jinja));
  return Parser(std::move(tokens)).Parse();
}

}  // namespace zeroth
