// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/read_jinja.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

using Kind = JinjaPart::Kind;
using Terms = std::vector<JinjaToken>;

constexpr char kSystemHeader[] = "<|im_start|>system\n";
constexpr char kEndOfTurn[] = "<|im_end|>";
constexpr size_t kShown = 80;

bool IsWord(const JinjaToken& token, absl::string_view word) {
  return !token.is_string && token.text == word;
}

// ["a", "=", ...] of {% set a = ... %}; empty for another statement.
absl::Span<const JinjaToken> Assignment(const JinjaPart& part) {
  const absl::Span<const JinjaToken> tokens(part.tokens);
  if (part.kind != Kind::kStatement || tokens.size() < 4 || !IsWord(tokens[0], "set") ||
      !IsWord(tokens[2], "=")) {
    return {};
  }
  return tokens.subspan(1);
}

// Follows statements, and says whether a part is written only for tools, or only for a conversation
// with its own message of the system.
class Branches {
 public:
  void Follow(const JinjaPart& statement) {
    if (statement.tokens.empty()) return;
    const JinjaToken& first = statement.tokens.front();
    if (IsWord(first, "if")) {
      branches_.push_back(BranchOf(statement));
    } else if (branches_.empty()) {
      return;
    } else if (IsWord(first, "elif")) {
      branches_.back() = BranchOf(statement);
    } else if (IsWord(first, "else")) {
      branches_.back() = branches_.back() == Branch::kWithout ? Branch::kWith : Branch::kOther;
    } else if (IsWord(first, "endif")) {
      branches_.pop_back();
    }
  }
  bool passed_over() const {
    return std::find(branches_.begin(), branches_.end(), Branch::kWith) != branches_.end();
  }

 private:
  enum class Branch { kWith, kWithout, kOther };

  static Branch BranchOf(const JinjaPart& statement) {
    const std::string code = JinjaCode(statement.tokens);
    for (const char* const without :
         {"not tools", "tools is none", "tools is not defined", "!='system'"}) {
      if (absl::StrContains(code, without)) return Branch::kWithout;
    }
    const bool with = absl::StrContains(code, "tools") || absl::StrContains(code, "=='system'");
    return with ? Branch::kWith : Branch::kOther;
  }

  std::vector<Branch> branches_;
};

// A run of text, or code or a statement between two of them.
struct Piece {
  Kind kind;
  std::string text;
  bool is_readable = true;
};

absl::Status UnreadSystem(absl::string_view what) {
  return InvalidArgument(
      "the chat template (ChatML) has a message of the system of its own, which cannot be read: ",
      what, "; expected one text between <|im_start|>system and ", kEndOfTurn,
      ". --chat_template=chatml goes on without that message, and conversations can begin with "
      "their own");
}

// The texts that {% set NAME = ... %} gives a name.
absl::StatusOr<std::vector<std::string>> TextsOf(const std::vector<Terms>& values) {
  std::vector<std::string> texts;
  for (const Terms& terms : values) {
    std::string text;
    bool all = true;
    bool has_text = false;
    bool has_message = false;
    bool is_readable = true;
    for (const JinjaToken& term : terms) {
      all = all && term.is_string;
      is_readable = is_readable && term.is_readable;
      if (term.is_string) {
        text += term.text;
        has_text = has_text || !absl::StripAsciiWhitespace(term.text).empty();
      } else {
        has_message = has_message || absl::StrContains(term.text, "message");
      }
    }
    if (has_text && ((!all && !has_message) || !is_readable)) {
      return UnreadSystem(
          absl::StrCat("it is made from \"", absl::Utf8SafeCEscape(text.substr(0, kShown)), "\""));
    }
    if (all && !text.empty()) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace

absl::StatusOr<std::optional<std::string>> ReadDefaultSystem(absl::Span<const JinjaPart> parts) {
  std::vector<Piece> pieces;
  std::map<std::string, std::vector<Terms>> values;
  Branches branches;
  const auto add = [&](Kind kind, absl::string_view text, bool is_readable) {
    if (kind == Kind::kText && !pieces.empty() && pieces.back().kind == Kind::kText) {
      absl::StrAppend(&pieces.back().text, text);
      pieces.back().is_readable = pieces.back().is_readable && is_readable;
    } else {
      pieces.push_back({kind, std::string(text), is_readable});
    }
  };
  for (const JinjaPart& part : parts) {
    if (part.kind == Kind::kStatement) {
      branches.Follow(part);
      const absl::Span<const JinjaToken> assignment = Assignment(part);
      if (!assignment.empty() && !branches.passed_over()) {
        values[assignment[0].text].push_back(JinjaTerms(assignment.subspan(2)));
      }
      add(Kind::kStatement, JinjaCode(part.tokens), true);
    } else if (branches.passed_over()) {
      continue;
    } else if (part.kind == Kind::kText) {
      add(Kind::kText, part.text, true);
    } else {
      for (const JinjaToken& term : JinjaTerms(part.tokens)) {
        add(term.is_string ? Kind::kText : Kind::kExpression, term.text, term.is_readable);
      }
    }
  }
  std::optional<std::string> found;
  const auto take = [&found](absl::string_view text) -> absl::Status {
    if (found.has_value() && *found != text) return UnreadSystem("there are two of them");
    found = std::string(text);
    return absl::OkStatus();
  };
  const Piece end = {Kind::kStatement, "the template's end"};
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].kind != Kind::kText) continue;
    const absl::string_view text = pieces[i].text;
    for (size_t at = text.find(kSystemHeader); at != absl::string_view::npos;
         at = text.find(kSystemHeader, at + 1)) {
      const absl::string_view rest = text.substr(at + sizeof(kSystemHeader) - 1);
      const absl::string_view message = rest.substr(0, rest.find(kEndOfTurn));
      if (!pieces[i].is_readable) {
        return UnreadSystem(absl::StrCat("its text has an escape that is not known here: \"",
                                         absl::Utf8SafeCEscape(message.substr(0, kShown)), "\""));
      }
      if (message.size() < rest.size()) {
        ZEROTH_RETURN_IF_ERROR(take(message));
        continue;
      }
      const Piece& next = i + 1 < pieces.size() ? pieces[i + 1] : end;
      if (!rest.empty() || next.kind != Kind::kExpression) {
        return UnreadSystem(absl::StrCat("after <|im_start|>system, and \"",
                                         absl::Utf8SafeCEscape(rest.substr(0, kShown)),
                                         "\", comes ", next.text.substr(0, kShown)));
      }
      // The conversation's own message, or a name for that or for a default.
      const auto value = values.find(next.text);
      if (value == values.end()) continue;
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsOf(value->second));
      for (const std::string& each : texts) {
        if (i + 2 >= pieces.size() || !absl::StartsWith(pieces[i + 2].text, kEndOfTurn)) {
          return UnreadSystem(
              absl::StrCat("more than ", next.text, " is between its header and its end"));
        }
        ZEROTH_RETURN_IF_ERROR(take(each));
      }
    }
  }
  return found;
}

namespace {

constexpr char kInst[] = "[INST]";
constexpr char kEndInst[] = "[/INST]";

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> all) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

bool IsText(const JinjaToken& term, std::initializer_list<absl::string_view> all) {
  return term.is_string && IsOneOf(term.text, all);
}

absl::Status UnreadMistral(absl::string_view what) {
  return InvalidArgument(
      "the chat template has [INST], but in a form that is not known here: ", what,
      "; expected that of a template by Mistral, as \"[INST] \" + message[\"content\"] + "
      "\"[/INST]\" and \" \" + message[\"content\"] + eos_token. --chat_template=mistral writes "
      "version 0.3's form (or the earlier one, if the tokenizer has no token [INST])");
}

bool IsContent(const JinjaToken& term) {
  return !term.is_string && IsOneOf(term.text, {"message['content']", "message.content"});
}

bool IsTrimmedContent(const JinjaToken& term) {
  return !term.is_string && IsOneOf(term.text, {"message['content']|trim", "message.content|trim",
                                                "message['content'].strip()"});
}

// The place that a condition gives the message of the system, or none.
std::optional<MistralFormat::System> PlaceOf(const JinjaPart* condition,
                                             const std::string& system) {
  using System = MistralFormat::System;
  if (condition == nullptr || condition->kind != Kind::kStatement) return std::nullopt;
  const std::string code = JinjaCode(condition->tokens);
  const std::string defined = absl::StrCat(system, " is defined");
  for (const auto& [place, is] : {std::pair("loop.first", System::kBeforeFirst),
                                  std::pair("loop.index0==0", System::kBeforeFirst),
                                  std::pair("loop.last", System::kBeforeLast)}) {
    if (code == absl::StrCat("if ", place, " and ", defined)) return is;
    if (code == absl::StrCat("if ", defined, " and ", place)) return is;
  }
  return std::nullopt;
}

// The assistant's turn: a blank or nothing, the content, a blank or nothing, and the end.
bool ReadReply(const Terms& terms, bool in_tokens, MistralFormat& format) {
  size_t i = 0;
  format.before_reply.clear();
  format.after_reply.clear();
  if (i < terms.size() && IsText(terms[i], {"", " "})) format.before_reply = terms[i++].text;
  if (i == terms.size() || (!IsContent(terms[i]) && !IsTrimmedContent(terms[i]))) return false;
  format.trims_replies = IsTrimmedContent(terms[i++]);
  if (i < terms.size() && IsText(terms[i], {" "})) format.after_reply = terms[i++].text;
  if (i == terms.size() || (!IsText(terms[i], {"</s>"}) && !IsWord(terms[i], "eos_token"))) {
    return false;
  }
  ++i;
  // Version 0.1 writes a blank between two turns in text, as the tokenizer does by itself.
  if (!in_tokens && i < terms.size() && IsText(terms[i], {" "})) ++i;
  return i == terms.size();
}

}  // namespace

absl::StatusOr<MistralFormat> ReadMistralFormat(absl::Span<const JinjaPart> parts, bool in_tokens) {
  MistralFormat format;
  bool has_user = false;
  bool has_reply = false;
  bool has_system = false;
  bool asks_for_system = false;
  const JinjaPart* before = nullptr;  // the last part but blanks
  for (const JinjaPart& part : parts) {
    const auto asks = [](const JinjaToken& token) { return IsText(token, {"system"}); };
    if (std::any_of(part.tokens.begin(), part.tokens.end(), asks)) asks_for_system = true;
    if (part.kind == Kind::kText) {
      if (absl::StripAsciiWhitespace(part.text).empty()) continue;
      if (absl::StrContains(part.text, kInst)) return UnreadMistral("it is outside of {{ and }}");
    }
    const JinjaPart* const condition = std::exchange(before, &part);
    const Terms terms = JinjaTerms(part.tokens);
    const auto has_inst = [](const JinjaToken& token) {
      return token.is_string &&
             (absl::StrContains(token.text, kInst) || absl::StrContains(token.text, kEndInst));
    };
    if (std::none_of(part.tokens.begin(), part.tokens.end(), has_inst)) {
      MistralFormat reply = format;
      if (part.kind != Kind::kExpression || !ReadReply(terms, in_tokens, reply)) continue;
      if (has_reply &&
          (reply.before_reply != format.before_reply || reply.after_reply != format.after_reply ||
           reply.trims_replies != format.trims_replies)) {
        return UnreadMistral("it writes the assistant's turns in two ways");
      }
      has_reply = true;
      format = std::move(reply);
      continue;
    }
    const std::string shown = JinjaCode(part.tokens).substr(0, kShown);
    const size_t count = terms.size();
    if (part.kind != Kind::kExpression || count < 3 || count > 5 ||
        !IsText(terms[0], {"[INST]", "[INST] ", " [INST] "}) || !IsContent(terms[count - 2]) ||
        !IsText(terms[count - 1], {"[/INST]", " [/INST]"})) {
      return UnreadMistral(absl::Utf8SafeCEscape(shown));
    }
    if (has_user &&
        (terms[0].text != format.before_user || terms[count - 1].text != format.after_user)) {
      return UnreadMistral("it writes the user's turns in two ways");
    }
    has_user = true;
    format.before_user = terms[0].text;
    format.after_user = terms[count - 1].text;
    if (count == 3) continue;
    // What PlainJinja writes, or a published template.
    std::optional<MistralFormat::System> place;
    if (count == 4 && terms[1].text == "(system if loop.first else '')") {
      place = MistralFormat::System::kBeforeFirst;
    } else if (count == 5 && !terms[1].is_string && IsText(terms[2], {"\n\n"})) {
      place = PlaceOf(condition, terms[1].text);
      for (const JinjaPart& each : parts) {
        const absl::Span<const JinjaToken> assignment = Assignment(each);
        if (assignment.empty() || assignment[0].text != terms[1].text) continue;
        if (!IsOneOf(JinjaCode(assignment.subspan(2)),
                     {"messages[0]['content']", "messages[0].content"})) {
          return UnreadMistral(absl::StrCat("it has a message of the system of its own, ",
                                            absl::Utf8SafeCEscape(JinjaCode(assignment))));
        }
      }
    }
    if (!place.has_value() || (has_system && *place != format.system)) {
      return UnreadMistral(
          absl::StrCat("where the message of the system stands in ", absl::Utf8SafeCEscape(shown)));
    }
    has_system = true;
    format.system = *place;
  }
  if (!has_user) return UnreadMistral("nothing writes the user's turns");
  if (!has_reply) return UnreadMistral("nothing writes the assistant's turns");
  if (has_system) return format;
  if (asks_for_system) return UnreadMistral("where the message of the system stands");
  // Templates of the first version refuse a message of the system, and Mistral's own tokenizer puts
  // it before the first of the user's.
  format.system = in_tokens ? MistralFormat::System::kNowhere : MistralFormat::System::kBeforeFirst;
  return format;
}

}  // namespace zeroth
