// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/read_jinja.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/jinja.h"

namespace zeroth {
namespace {

using Kind = JinjaPart::Kind;

constexpr char kSystemHeader[] = "<|im_start|>system\n";
constexpr char kEndOfTurn[] = "<|im_end|>";

constexpr size_t kShown = 80;

// The beginning of a text, for messages.
std::string Shown(absl::string_view text) { return absl::Utf8SafeCEscape(text.substr(0, kShown)); }

// Whether a branch is written only for tools or for a conversation with its own message of the
// system (kWith), or only without these.
enum class Branch { kWith, kWithout, kOther };

Branch BranchOf(absl::string_view condition) {
  for (const char* const without :
       {"not tools", "tools is none", "tools is not defined", "!='system'"}) {
    if (absl::StrContains(condition, without)) return Branch::kWithout;
  }
  const bool with =
      absl::StrContains(condition, "tools") || absl::StrContains(condition, "=='system'");
  return with ? Branch::kWith : Branch::kOther;
}

// Enters and leaves branches as the statement does.
void Follow(const JinjaPart& statement, std::vector<Branch>& branches) {
  if (statement.keyword == "if") {
    branches.push_back(BranchOf(statement.text));
  } else if (branches.empty()) {
    return;
  } else if (statement.keyword == "elif") {
    branches.back() = BranchOf(statement.text);
  } else if (statement.keyword == "else") {
    branches.back() = branches.back() == Branch::kWithout ? Branch::kWith : Branch::kOther;
  } else if (statement.keyword == "endif") {
    branches.pop_back();
  }
}

// What a template writes one after the other: a run of text, or code; and statements between them.
struct Piece : JinjaTerm {
  bool is_statement = false;
};

absl::Status UnreadSystem(absl::string_view what) {
  return InvalidArgument(
      "the chat template (ChatML) has a message of the system of its own, which cannot be read: ",
      what, "; expected one text between <|im_start|>system and ", kEndOfTurn,
      ". --chat_template=chatml goes on without that message, and conversations can begin with "
      "their own");
}

// The text that a variable is set to; empty if that is the conversation's own.
absl::StatusOr<std::string> TextOf(const std::vector<JinjaTerm>& value) {
  std::string text;
  bool is_known = true;
  bool has_message = false;
  bool is_readable = true;
  for (const JinjaTerm& term : value) {
    if (term.is_string) text += term.text;
    is_known = is_known && term.is_string;
    has_message = has_message || (!term.is_string && absl::StrContains(term.text, "message"));
    is_readable = is_readable && term.is_readable;
  }
  const bool has_text = !absl::StripAsciiWhitespace(text).empty();
  if (has_text && ((!is_known && !has_message) || !is_readable)) {
    return UnreadSystem(absl::StrCat("it is made from \"", Shown(text), "\""));
  }
  return is_known ? text : "";
}

// The message of the system that a template of ChatML writes for a conversation without one; none
// if it writes no message then.
absl::StatusOr<std::optional<std::string>> ReadDefaultSystem(const std::vector<JinjaPart>& parts) {
  std::vector<Piece> pieces;
  std::map<std::string, std::vector<std::vector<JinjaTerm>>> values;  // of each variable
  std::vector<Branch> branches;
  for (const JinjaPart& part : parts) {
    const bool is_statement = part.kind == Kind::kStatement;
    if (is_statement) {
      Follow(part, branches);
      pieces.push_back({{.text = part.text}, is_statement});
    }
    if (std::find(branches.begin(), branches.end(), Branch::kWith) != branches.end()) continue;
    if (is_statement) {
      if (!part.variable.empty()) values[part.variable].push_back(part.terms);
      continue;
    }
    for (const JinjaTerm& term : part.terms) {
      if (!term.is_string || pieces.empty() || !pieces.back().is_string) {
        pieces.push_back({term});
        continue;
      }
      pieces.back().text += term.text;
      pieces.back().is_readable = pieces.back().is_readable && term.is_readable;
    }
  }
  pieces.push_back({{.text = "the template's end"}, /*is_statement=*/true});
  std::optional<std::string> found;
  const auto take = [&found](absl::string_view text) -> absl::Status {
    if (found.has_value() && *found != text) return UnreadSystem("there are two of them");
    found = std::string(text);
    return absl::OkStatus();
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!pieces[i].is_string) continue;
    const absl::string_view text = pieces[i].text;
    for (size_t at = text.find(kSystemHeader); at != absl::string_view::npos;
         at = text.find(kSystemHeader, at + 1)) {
      const absl::string_view rest = text.substr(at + sizeof(kSystemHeader) - 1);
      const size_t end = rest.find(kEndOfTurn);
      const absl::string_view message = rest.substr(0, end);
      if (!pieces[i].is_readable) {
        return UnreadSystem(absl::StrCat("its text has an escape that is not known here: \"",
                                         Shown(message), "\""));
      }
      if (end != absl::string_view::npos) {
        ZEROTH_RETURN_IF_ERROR(take(message));
        continue;
      }
      const Piece& next = pieces[i + 1];
      if (!rest.empty() || next.is_statement) {
        return UnreadSystem(absl::StrCat("after <|im_start|>system, and \"", Shown(rest),
                                         "\", comes ", next.text.substr(0, kShown)));
      }
      // The conversation's own message, or a variable for that or for a default.
      for (const std::vector<JinjaTerm>& value : values[next.text]) {
        ZEROTH_ASSIGN_OR_RETURN(const std::string each, TextOf(value));
        if (each.empty()) continue;
        if (!absl::StartsWith(pieces[i + 2].text, kEndOfTurn)) {
          return UnreadSystem(
              absl::StrCat("more than ", next.text, " is between its header and its end"));
        }
        ZEROTH_RETURN_IF_ERROR(take(each));
      }
    }
  }
  return found;
}

absl::Status UnreadChatMl(absl::string_view what) {
  return InvalidArgument(
      "the chat template has <|im_start|>, but in a form that is not known here: ", what,
      "; expected that of Qwen 2 or 3. --chat_template=chatml writes ChatML without thoughts");
}

// How Qwen 3's template takes thoughts out of the content, also as others spell it for other
// programs that read Jinja.
constexpr absl::string_view kSplitsThoughts[] = {
    "if '</think>' in content",
    "set content=content.split('</think>')[-1].lstrip('\n')",
    "set content=(content.split('</think>')|last).lstrip('\n')",
    "set reasoning_content=content.split('</think>')[0].rstrip('\n')"
    ".split('<think>')[-1].lstrip('\n')",
    "set reasoning_content=(content.split('</think>')|first).rstrip('\n')",
    "set reasoning_content=(reasoning_content.split('<think>')|last).lstrip('\n')",
};
constexpr absl::string_view kWritesThoughts =
    "'<|im_start|>'+message.role+'\n<think>\n'+reasoning_content.strip('\n')+"
    "'\n</think>\n\n'+content.lstrip('\n')";

// True for the turn of a reply after the user's last message, with thoughts even if they are empty.
bool IsOfTheLastReply(const std::vector<std::string>& conditions) {
  bool is_last = false;
  for (const std::string& condition : conditions) {
    const bool is_turn = absl::EndsWith(condition, "if message.role=='assistant'");
    const bool is_known = condition == "if loop.last or(not loop.last and reasoning_content)";
    const bool asks = condition == "if loop.index0>ns.last_query_index";
    if (!is_turn && !is_known && !asks) return false;
    is_last = is_last || asks;
  }
  return is_last;
}

}  // namespace

absl::StatusOr<ChatMlFormat> ReadChatMlFormat(absl::string_view jinja) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<JinjaPart> parts, SplitJinja(jinja));
  ChatMlFormat format;
  ZEROTH_ASSIGN_OR_RETURN(format.default_system, ReadDefaultSystem(parts));
  std::vector<std::string> conditions;  // of the branches around
  bool splits = false;
  std::string prompt;
  for (const JinjaPart& part : parts) {
    const std::string code = absl::StrReplaceAll(
        part.text, {{"message.content", "content"}, {"message['content']", "content"}});
    if (part.keyword == "if") conditions.push_back(part.text);
    if (!conditions.empty()) {
      if (part.keyword == "elif" || part.keyword == "else") conditions.back() = part.text;
      if (part.keyword == "endif") conditions.pop_back();
    }
    const bool is_statement = part.kind == Kind::kStatement;
    const auto opens = std::find_if(conditions.begin(), conditions.end(), [](const auto& each) {
      return absl::StrContains(each, "add_generation_prompt");
    });
    if (opens != conditions.end() && !is_statement) {
      // Nobody asks here for a reply without thoughts.
      if (conditions.back() == "if enable_thinking is defined and enable_thinking is false")
        continue;
      if (opens + 1 != conditions.end()) return UnreadChatMl(conditions.back());
      for (const JinjaTerm& term : part.terms) {
        if (!term.is_string) return UnreadChatMl(Shown(part.text));
        prompt += term.text;
      }
      continue;
    }
    const bool is_expression = part.kind == Kind::kExpression;
    if (code == kWritesThoughts && IsOfTheLastReply(conditions)) {
      format.thinks = true;
    } else if (absl::c_linear_search(kSplitsThoughts, code)) {
      splits = splits || part.variable == "content";
    } else if (absl::StrContains(code, "think>") ||
               (is_expression && absl::StrContains(code, "reasoning_content"))) {
      return UnreadChatMl(absl::StrCat("its thoughts, ", Shown(part.text)));
    } else if ((part.variable == "content" ||
                (is_expression && absl::StrContains(code, "<|im_"))) &&
               absl::StrContains(code, "content") &&
               (absl::StrContains(code, "|trim") || absl::StrContains(code, "strip("))) {
      return UnreadChatMl(absl::StrCat("it takes blanks off, ", Shown(part.text)));
    }
  }
  const bool reads = absl::StrContains(jinja, "message.reasoning_content");
  if (format.thinks ? !splits || !reads : splits) {
    return UnreadChatMl("thoughts (</think>), which it does not both read and write");
  }
  absl::string_view opened = prompt;
  const bool opens_reply = absl::ConsumePrefix(&opened, "<|im_start|>assistant\n");
  if (!prompt.empty() &&
      (!opens_reply || !(opened.empty() || (format.thinks && opened == "<think>\n")))) {
    return UnreadChatMl(absl::StrCat("a prompt ends with \"", Shown(prompt), "\""));
  }
  format.opened = std::string(opened);
  return format;
}

namespace {

using System = MistralFormat::System;

absl::Status UnreadMistral(absl::string_view what) {
  return InvalidArgument(
      "the chat template has [INST], but in a form that is not known here: ", what,
      "; expected that of a template by Mistral, as \"[INST] \" + message[\"content\"] + "
      "\"[/INST]\" and \" \" + message[\"content\"] + eos_token. --chat_template=mistral writes "
      "version 0.3's form (or the earlier one, if the tokenizer has no token [INST])");
}

constexpr char kContent[] = "message['content']";

bool IsText(const JinjaTerm& term, std::initializer_list<absl::string_view> all) {
  return term.is_string && std::find(all.begin(), all.end(), term.text) != all.end();
}

// The user's turn: [INST], maybe the message of the system, the content, and [/INST].
std::optional<MistralFormat::Turn> ReadUser(const std::vector<JinjaTerm>& terms) {
  const size_t count = terms.size();
  if (count < 3 || count > 5 || !IsText(terms[0], {"[INST]", "[INST] ", " [INST] "}) ||
      terms[count - 2].is_string || terms[count - 2].text != kContent ||
      !IsText(terms[count - 1], {"[/INST]", " [/INST]"})) {
    return std::nullopt;
  }
  return MistralFormat::Turn{terms[0].text, terms[count - 1].text};
}

// The assistant's turn: a blank or nothing, the content, a blank or nothing, and the end.
std::optional<MistralFormat::Turn> ReadReply(absl::string_view code, bool in_tokens) {
  MistralFormat::Turn turn;
  if (absl::ConsumePrefix(&code, "' '+")) turn.before = " ";
  if (turn.before.empty()) absl::ConsumePrefix(&code, "''+");
  if (!absl::ConsumePrefix(&code, kContent)) return std::nullopt;
  turn.trims = absl::ConsumePrefix(&code, "|trim") || absl::ConsumePrefix(&code, ".strip()");
  if (absl::ConsumePrefix(&code, "+' '")) turn.after = " ";
  if (!absl::ConsumePrefix(&code, "+'</s>'") && !absl::ConsumePrefix(&code, "+eos_token")) {
    return std::nullopt;
  }
  // Version 0.1 writes a blank between two turns in text, as the tokenizer does by itself.
  if (!in_tokens) absl::ConsumePrefix(&code, "+' '");
  return code.empty() ? std::optional(turn) : std::nullopt;
}

// The place that a user's turn under a condition gives the message of the system, or none.
std::optional<System> PlaceOf(const std::vector<JinjaTerm>& terms, absl::string_view condition) {
  // What PlainJinja writes.
  if (terms.size() == 4 && terms[1].text == "(system if loop.first else '')") {
    return System::kBeforeFirst;
  }
  // A published template's.
  if (terms.size() != 5 || terms[1].is_string || !IsText(terms[2], {"\n\n"})) return std::nullopt;
  const std::string defined = absl::StrCat(terms[1].text, " is defined");
  for (const auto& [place, is] : {std::pair("loop.first", System::kBeforeFirst),
                                  std::pair("loop.index0==0", System::kBeforeFirst),
                                  std::pair("loop.last", System::kBeforeLast)}) {
    if (condition == absl::StrCat("if ", place, " and ", defined)) return is;
    if (condition == absl::StrCat("if ", defined, " and ", place)) return is;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<MistralFormat> ReadMistralFormat(absl::string_view jinja, bool in_tokens) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<JinjaPart> parts, SplitJinja(jinja));
  std::optional<MistralFormat::Turn> user;
  std::optional<MistralFormat::Turn> reply;
  std::optional<System> system;
  bool asks_for_system = false;
  std::string statement;  // directly before, but for blanks
  for (const JinjaPart& part : parts) {
    const bool is_expression = part.kind == Kind::kExpression;
    if (part.kind == Kind::kText) {
      if (absl::StripAsciiWhitespace(part.text).empty()) continue;
      if (absl::StrContains(part.text, "[INST]")) {
        return UnreadMistral("it is outside of {{ and }}");
      }
    }
    const std::string condition =
        std::exchange(statement, part.kind == Kind::kStatement ? part.text : "");
    if (part.kind == Kind::kText) continue;
    if (absl::StrContains(part.text, "'system'")) asks_for_system = true;
    const bool has_inst =
        absl::StrContains(part.text, "[INST]") || absl::StrContains(part.text, "[/INST]");
    if (!has_inst) {
      const auto read = is_expression ? ReadReply(part.text, in_tokens) : std::nullopt;
      if (!read.has_value()) continue;
      if (reply.value_or(*read) != *read) {
        return UnreadMistral("it writes the assistant's turns in two ways");
      }
      reply = read;
      continue;
    }
    const auto read = is_expression ? ReadUser(part.terms) : std::nullopt;
    if (!read.has_value()) return UnreadMistral(Shown(part.text));
    if (user.value_or(*read) != *read) {
      return UnreadMistral("it writes the user's turns in two ways");
    }
    user = read;
    if (part.terms.size() == 3) continue;
    const std::optional<System> place = PlaceOf(part.terms, condition);
    for (const JinjaPart& set : parts) {
      if (part.terms.size() != 5 || set.variable != part.terms[1].text) continue;
      if (set.text == absl::StrCat("set ", set.variable, "=messages[0]['content']")) continue;
      return UnreadMistral(
          absl::StrCat("it has a message of the system of its own, ", Shown(set.text)));
    }
    if (!place.has_value() || system.value_or(*place) != *place) {
      return UnreadMistral(
          absl::StrCat("where the message of the system stands in ", Shown(part.text)));
    }
    system = place;
  }
  if (!user.has_value()) return UnreadMistral("nothing writes the user's turns");
  if (!reply.has_value()) return UnreadMistral("nothing writes the assistant's turns");
  if (!system.has_value() && asks_for_system) {
    return UnreadMistral("where the message of the system stands");
  }
  // Templates of the first version refuse a message of the system, and Mistral's own tokenizer puts
  // it before the first of the user's.
  const System otherwise = in_tokens ? System::kNowhere : System::kBeforeFirst;
  return MistralFormat{*user, *reply, system.value_or(otherwise)};
}

}  // namespace zeroth
