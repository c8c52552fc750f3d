// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Checks that a template writes all tools, calls and results. Special tokens that these spell are
// encoded as text.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

using Json = nlohmann::ordered_json;
using ChangeText = absl::FunctionRef<absl::Status(std::string&)>;

// Changes each string of a JSON value, the names of members included.
absl::Status ChangeStrings(Json& json, ChangeText change) {
  if (json.is_string()) return change(json.get_ref<std::string&>());
  if (json.is_array()) {
    for (Json& each : json) ZEROTH_RETURN_IF_ERROR(ChangeStrings(each, change));
  }
  if (json.is_object()) {
    Json changed = Json::object();
    for (auto& [key, value] : json.get_ref<Json::object_t&>()) {
      std::string name = key;
      ZEROTH_RETURN_IF_ERROR(change(name));
      ZEROTH_RETURN_IF_ERROR(ChangeStrings(value, change));
      changed.get_ref<Json::object_t&>().emplace_back(std::move(name), std::move(value));
    }
    json = std::move(changed);
  }
  return absl::OkStatus();
}

// Changes each text of a conversation.
absl::Status ChangeTexts(std::vector<ChatMessage>& messages, ChatTools& tools, ChangeText change) {
  for (ChatMessage& message : messages) {
    for (std::string* const text : {&message.content, &message.name, &message.tool_call_id,
                                    message.thought.has_value() ? &*message.thought : nullptr}) {
      if (text != nullptr) ZEROTH_RETURN_IF_ERROR(change(*text));
    }
    ZEROTH_RETURN_IF_ERROR(ChangeStrings(message.tool_calls, change));
  }
  return ChangeStrings(tools, change);
}

// A change of one part of a message, made to see whether a template writes that part.
struct Change {
  enum Kind : uint8_t { kText, kName, kArguments };

  size_t message = 0;
  const char* what = "";
  Kind kind = kText;
  bool is_learned = false;
  size_t call = 0;  // of kName and kArguments
};

// Adds `mark` to the part that `change` names.
void Make(const Change& change, const std::string& mark, std::vector<ChatMessage>& messages) {
  ChatMessage& message = messages[change.message];
  if (change.kind == Change::kText) {
    message.content += mark;
    return;
  }
  Json& function = message.tool_calls[change.call]["function"];
  Json& value = function[change.kind == Change::kName ? "name" : "arguments"];
  if (value.is_object()) {
    value[mark] = mark;
  } else {
    value = value.get<std::string>() + mark;
  }
}

// Joins the spans of `text`: what {% generation %} blocks wrote.
std::string Joined(absl::string_view text, absl::Span<const JinjaSpan> spans) {
  std::string joined;
  for (const JinjaSpan& span : spans) {
    absl::StrAppend(&joined, text.substr(span.begin, span.end - span.begin));
  }
  return joined;
}

}  // namespace

absl::StatusOr<std::string> ChatTemplate::MarkSpecial(std::vector<ChatMessage>& messages,
                                                      ChatTools& tools) const {
  constexpr uint32_t kFirstPrivate = 0xE000;
  std::string mark;
  bool is_used = true;
  for (uint32_t c = kFirstPrivate; is_used; ++c) {
    mark.clear();
    AppendUtf8(c, &mark);
    is_used = absl::StrContains(source_->text, mark);
    ZEROTH_RETURN_IF_ERROR(ChangeTexts(messages, tools, [&](const std::string& text) {
      is_used = is_used || absl::StrContains(text, mark);
      return absl::OkStatus();
    }));
  }
  bool marks = false;
  const auto mark_special = [&](std::string& text) -> absl::Status {
    std::string marked;
    ZEROTH_RETURN_IF_ERROR(
        tokenizer_->SplitSpecial(text, [&](absl::string_view part, std::optional<int32_t> token) {
          if (!token.has_value()) {
            absl::StrAppend(&marked, part);
            return absl::OkStatus();
          }
          // After each character, since the rest may spell another token.
          for (size_t at = 0; at < part.size();) {
            const size_t length = DecodeUtf8(part.substr(at)).length;
            absl::StrAppend(&marked, part.substr(at, length), mark);
            at += length;
          }
          marks = true;
          return absl::OkStatus();
        }));
    ZEROTH_RETURN_IF_ERROR(tokenizer_->SplitSpecial(
        marked, [&](absl::string_view part, std::optional<int32_t> token) -> absl::Status {
          if (!token.has_value()) return absl::OkStatus();
          return InvalidArgument("a message has ", Excerpt(part),
                                 ", a special token of one character, which cannot be written as "
                                 "text; remove it from the message");
        }));
    text = std::move(marked);
    return absl::OkStatus();
  };
  ZEROTH_RETURN_IF_ERROR(ChangeTexts(messages, tools, mark_special));
  return marks ? mark : "";
}

absl::Status ChatTemplate::CheckWritesTools(absl::string_view text,
                                            absl::Span<const JinjaSpan> generated,
                                            absl::Span<const ChatMessage> messages,
                                            const ChatTools& tools) const {
  constexpr char kRemedy[] =
      ". Choose a --chat_template that writes tools, such as auto (that of the model's directory) "
      "or the path of a .jinja file, or leave them out of the record";
  // A template writes a part of the record if its text changes with that part. It also counts if
  // the template fails on the change, since then it reads the part. Whether the text opens a reply
  // changes nothing before it.
  const auto writes = [&](absl::Span<const ChatMessage> changed, const ChatTools& changed_tools,
                          std::string* learned) {
    std::vector<JinjaSpan> spans;
    const auto other = Run(changed, changed_tools, messages.back().role != "assistant", &spans);
    if (other.ok() && learned != nullptr) *learned = Joined(*other, spans);
    return !other.ok() || *other != text;
  };
  if (!tools.empty() && !writes(messages, {}, nullptr)) {
    return InvalidArgument(
        "the chat template does not write the record's \"tools\": without them "
        "it writes the same text",
        kRemedy);
  }
  std::vector<Change> changes;
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const bool calls = !message.tool_calls.empty();
    if (message.role != "tool" && !calls) continue;
    if (!StripPython(message.content).empty() || message.role == "tool") {
      changes.push_back(
          {i, calls ? "the text beside the tool calls" : "a tool's result", Change::kText, calls});
    }
    for (size_t call = 0; call < message.tool_calls.size(); ++call) {
      changes.push_back({i, "the name of a tool call", Change::kName, true, call});
      const Json& arguments = message.tool_calls[call]["function"]["arguments"];
      if (arguments.empty()) continue;
      changes.push_back({i, "the arguments of a tool call", Change::kArguments, true, call});
      const std::string quoted = arguments.is_string() ? arguments.dump() : "";
      if (!quoted.empty() && absl::StrContains(text, quoted)) {
        return InvalidArgument("the chat template writes the arguments of a tool call of message ",
                               i + 1, " as a string of JSON in JSON, ", Excerpt(quoted),
                               "; give \"arguments\" as an object, not as a string");
      }
    }
  }

  if (changes.empty()) return absl::OkStatus();

  // One rendering with all changes proves those whose marks appear in it. Each of the others is
  // then tried alone.
  std::string mark = "zq";
  while (absl::StrContains(text, mark)) mark += "q";
  const auto mark_of = [&](size_t change) { return absl::StrCat(mark, change, "z"); };
  std::vector<ChatMessage> changed(messages.begin(), messages.end());
  for (size_t i = 0; i < changes.size(); ++i) Make(changes[i], mark_of(i), changed);
  std::vector<JinjaSpan> spans;
  const absl::StatusOr<std::string> all =
      Run(changed, tools, messages.back().role != "assistant", &spans);
  const std::string learned_of_all = all.ok() ? Joined(*all, spans) : "";
  const std::string learned = Joined(text, generated);
  for (size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    const bool is_learned = change.is_learned && marks_replies_;
    if (all.ok() && absl::StrContains(is_learned ? learned_of_all : *all, mark_of(i))) continue;
    changed.assign(messages.begin(), messages.end());
    Make(change, "?", changed);
    std::string other = learned + "?";
    if (!writes(changed, tools, &other)) {
      return InvalidArgument("the chat template does not write ", change.what, " of message ",
                             change.message + 1, kRemedy);
    }
    if (is_learned && other == learned) {
      return InvalidArgument("the chat template's {% generation %} blocks leave out ", change.what,
                             " of message ", change.message + 1,
                             ": it would not be trained. Expected the blocks around tool calls");
    }
  }
  return absl::OkStatus();
}

absl::Status ChatTemplate::ExplainFailure(const absl::Status& failed,
                                          std::vector<ChatMessage> messages,
                                          const ChatTools& tools) const {
  size_t first = messages.size();
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i].has_content) continue;
    messages[i].has_content = true;
    first = i;
  }
  if (first == messages.size()) return failed;
  std::vector<JinjaSpan> generated;
  const absl::StatusOr<std::string> text =
      Run(messages, tools, messages.back().role != "assistant", &generated);
  if (!text.ok()) return failed;
  ZEROTH_RETURN_IF_ERROR(CheckWritesTools(*text, generated, messages, tools));
  return InvalidArgument("message ", first + 1, " has tool calls without \"content\", for which ",
                         failed.message(),
                         "; write \"content\": \"\" in the record, or choose another "
                         "--chat_template");
}

}  // namespace zeroth
