// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/examples.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/message_parser.h"
#include "zeroth/data/chat/tool_calls.h"

namespace zeroth {
namespace {

// Keys of a record that would change what is learned. Ignoring functions, for example, would leave
// them out silently. All other keys describe the record, except for "tools" of conversations.
constexpr absl::string_view kRefusedOfRecord[] = {"functions",     "function_call",
                                                  "tool_choice",   "system",
                                                  "documents",     "loss_mask",
                                                  "images",        "image",
                                                  "videos",        "video",
                                                  "audios",        "audio",
                                                  "chat_template", "chat_template_kwargs",
                                                  "weight",        "loss",
                                                  "trainable",     "masks",
                                                  "history"};

bool IsBlank(absl::string_view text) { return absl::StripAsciiWhitespace(text).empty(); }

// Whether this is a reply that can be learned.
bool IsReply(const ChatMessage& message) {
  return message.role == "assistant" &&
         !(IsBlank(message.content) && IsBlank(message.thought.value_or("")) &&
           message.tool_calls.empty());
}

// The string `key` of a record; empty if it may be left out, and is left out or null.
absl::StatusOr<std::string> ReadText(const nlohmann::ordered_json& json, const char* key,
                                     bool may_be_left_out = false) {
  const auto found = json.find(key);
  if (may_be_left_out && (found == json.end() || found->is_null())) return std::string();
  if (found->is_string()) return found->get<std::string>();
  return InvalidArgument("\"", key, "\" is ", found->type_name(), ", expected a string");
}

absl::StatusOr<bool> ReadLabel(const nlohmann::ordered_json& json) {
  const auto found = json.find("label");
  if (found == json.end()) {
    return absl::InvalidArgumentError(
        "has no \"label\", expected true for a desirable completion or false; "
        "--data_columns=label=COLUMN reads another key as the label");
  }
  if (found->is_boolean()) return found->get<bool>();
  return InvalidArgument("\"label\" is ", found->type_name(), ", expected true or false");
}

absl::StatusOr<Example> ParseAlpaca(const nlohmann::ordered_json& json, bool has_template) {
  ZEROTH_ASSIGN_OR_RETURN(std::string instruction, ReadText(json, "instruction"));
  ZEROTH_ASSIGN_OR_RETURN(const std::string input, ReadText(json, "input", true));
  ZEROTH_ASSIGN_OR_RETURN(std::string output, ReadText(json, "output"));
  if (IsBlank(instruction)) {
    return absl::InvalidArgumentError("\"instruction\" has no text; leave the record out");
  }
  if (IsBlank(output)) {
    return absl::InvalidArgumentError(
        "\"output\" has no text, from which nothing is learned; leave the record out");
  }
  if (!has_template) return Example{{}, AlpacaPrompt(instruction, input), std::move(output)};
  if (!input.empty()) absl::StrAppend(&instruction, "\n\n", input);
  return Example{{{"user", std::move(instruction)}, {"assistant", std::move(output)}}, "", ""};
}

// Reads the record's tools, and checks them together with the calls of its messages.
absl::Status ReadTools(const nlohmann::ordered_json& json, Example& example) {
  if (const auto tools = json.find("tools"); tools != json.end()) {
    ZEROTH_ASSIGN_OR_RETURN(example.tools, ParseTools(*tools));
  }
  ZEROTH_RETURN_IF_ERROR(CheckIntegers(example.tools));
  for (const auto* const messages : {&example.messages, &example.rejected_messages}) {
    for (const ChatMessage& message : *messages) {
      ZEROTH_RETURN_IF_ERROR(CheckIntegers(message.tool_calls));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Example> ParsePromptMessages(const nlohmann::ordered_json& json, bool loss_on_all) {
  for (const char* const key : {"prompt", "completion"}) {
    if (json[key].is_array()) continue;
    return InvalidArgument("\"", key, "\" is ", json[key].type_name(),
                           ", expected a list of messages as the other has, or text in both");
  }
  Example example;
  ZEROTH_ASSIGN_OR_RETURN(example.messages, ParseMessages(json, "prompt", kOpenAiFormat));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<ChatMessage> completion,
                          ParseMessages(json, "completion", kOpenAiFormat));
  if (completion.size() != 1 || !IsReply(completion[0])) {
    return InvalidArgument("\"completion\" has ", completion.size(),
                           " messages, expected one, of the assistant and with text");
  }
  for (ChatMessage& message : example.messages) {
    if (message.role == "assistant" && !loss_on_all) message.is_learned = false;
  }
  example.prompt_messages = example.messages.size();
  example.messages.push_back(std::move(completion[0]));
  ZEROTH_RETURN_IF_ERROR(ReadTools(json, example));
  return example;
}

absl::StatusOr<Example> ParseConversation(const nlohmann::ordered_json& json, RecordKind kind) {
  Example example;
  ZEROTH_ASSIGN_OR_RETURN(example.messages,
                          kind == RecordKind::kShareGpt
                              ? ParseMessages(json, "conversations", kShareGptFormat)
                              : ParseMessages(json, "messages", kOpenAiFormat));
  if (std::none_of(example.messages.begin(), example.messages.end(), IsReply)) {
    return absl::InvalidArgumentError(
        "a conversation without text of the assistant, from which nothing is learned; leave it "
        "out");
  }
  ZEROTH_RETURN_IF_ERROR(ReadTools(json, example));
  return example;
}

absl::StatusOr<Example> ParseText(const nlohmann::ordered_json& json) {
  Example example;
  ZEROTH_ASSIGN_OR_RETURN(example.prompt, ReadText(json, "prompt"));
  ZEROTH_ASSIGN_OR_RETURN(example.completion, ReadText(json, "completion"));
  if (example.completion.empty()) {
    return absl::InvalidArgumentError(
        "\"completion\" has no text, from which nothing is learned; leave the record out");
  }
  return example;
}

// Returns the length of the common prefix: whole characters, without a final space, since tokens
// begin with spaces (as TRL's extract_prompt).
size_t CommonBegin(absl::string_view a, absl::string_view b) {
  size_t end = 0;
  while (end < std::min(a.size(), b.size()) && a[end] == b[end]) ++end;
  const auto is_inside = [](absl::string_view text, size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  while (end > 0 && (is_inside(a, end) || is_inside(b, end))) --end;
  return end > 0 && a[end - 1] == ' ' ? end - 1 : end;
}

bool HasPrompt(const nlohmann::ordered_json& json) {
  const auto prompt = json.find("prompt");
  return prompt != json.end() && !prompt->is_null();
}

constexpr char kSameAnswers[] =
    "\"chosen\" and \"rejected\" are the same, from which no preference is learned; leave the "
    "record out";

absl::StatusOr<Example> ParsePair(const nlohmann::ordered_json& json) {
  Example example;
  ZEROTH_ASSIGN_OR_RETURN(example.completion, ReadText(json, "chosen"));
  ZEROTH_ASSIGN_OR_RETURN(example.rejected_completion, ReadText(json, "rejected"));
  if (HasPrompt(json)) {
    ZEROTH_ASSIGN_OR_RETURN(example.prompt, ReadText(json, "prompt"));
    if (example.completion == example.rejected_completion) {
      return absl::InvalidArgumentError(kSameAnswers);
    }
  } else {
    for (const char* const key : {"instruction", "question", "query", "input"}) {
      if (!json.contains(key) || IsEmptyValue(json[key])) continue;
      return InvalidArgument("has \"", key, "\" and no \"prompt\"; --data_columns=prompt=", key,
                             " reads it as the prompt");
    }
    const size_t common = CommonBegin(example.completion, example.rejected_completion);
    if (common == 0) {
      return absl::InvalidArgumentError(
          "\"chosen\" and \"rejected\" begin with different text, and there is no \"prompt\"; "
          "--data_columns=prompt=COLUMN reads another key as the prompt");
    }
    example.prompt = example.completion.substr(0, common);
    example.completion.erase(0, common);
    example.rejected_completion.erase(0, common);
  }
  if (example.completion.empty() || example.rejected_completion.empty()) {
    return InvalidArgument("\"", example.completion.empty() ? "chosen" : "rejected",
                           "\" has no text after the prompt, expected an answer in both; leave the "
                           "record out");
  }
  return example;
}

// Refuses an answer that begins with the messages of the prompt. TRL's pairs have whole
// conversations only in records without a prompt.
absl::Status CheckDoesNotRepeat(const std::vector<ChatMessage>& prompt, absl::string_view key,
                                const std::vector<ChatMessage>& answer) {
  if (prompt.empty() || answer.size() < prompt.size() ||
      !std::equal(prompt.begin(), prompt.end(), answer.begin())) {
    return absl::OkStatus();
  }
  return InvalidArgument("\"", key,
                         "\" begins with the messages of \"prompt\", expected only "
                         "what follows them; leave \"prompt\" out of the record, or its messages "
                         "out of \"chosen\" and \"rejected\"");
}

absl::StatusOr<Example> ParsePairMessages(const nlohmann::ordered_json& json) {
  Example example;
  ZEROTH_ASSIGN_OR_RETURN(example.messages, ParseMessages(json, "chosen", kOpenAiFormat));
  ZEROTH_ASSIGN_OR_RETURN(example.rejected_messages,
                          ParseMessages(json, "rejected", kOpenAiFormat));
  std::vector<ChatMessage> prompt;
  // A prompt that is text repeats the first message, as in UltraFeedback.
  if (const auto found = json.find("prompt"); found != json.end() && found->is_array()) {
    ZEROTH_ASSIGN_OR_RETURN(prompt, ParseMessages(json, "prompt", kOpenAiFormat));
    ZEROTH_RETURN_IF_ERROR(CheckDoesNotRepeat(prompt, "chosen", example.messages));
    ZEROTH_RETURN_IF_ERROR(CheckDoesNotRepeat(prompt, "rejected", example.rejected_messages));
  } else {
    const std::vector<ChatMessage>& chosen = example.messages;
    const std::vector<ChatMessage>& rejected = example.rejected_messages;
    while (prompt.size() < std::min(chosen.size(), rejected.size()) &&
           chosen[prompt.size()] == rejected[prompt.size()]) {
      prompt.push_back(chosen[prompt.size()]);
    }
    if (prompt.empty()) {
      return absl::InvalidArgumentError(
          "\"chosen\" and \"rejected\" begin with different messages, expected a \"prompt\" of "
          "messages, or the same messages first in both");
    }
    for (auto* const messages : {&example.messages, &example.rejected_messages}) {
      messages->erase(messages->begin(),
                      messages->begin() + static_cast<std::ptrdiff_t>(prompt.size()));
    }
  }
  for (ChatMessage& message : prompt) {
    if (message.role == "assistant") message.is_learned = false;
  }
  for (auto* const messages : {&example.messages, &example.rejected_messages}) {
    if (messages->empty() || !IsReply(messages->back())) {
      return InvalidArgument("\"", messages == &example.messages ? "chosen" : "rejected",
                             "\" does not end with the assistant's text after the prompt, expected "
                             "an answer in both; leave the record out");
    }
  }
  if (example.messages == example.rejected_messages) {
    return absl::InvalidArgumentError(kSameAnswers);
  }
  for (auto* const messages : {&example.messages, &example.rejected_messages}) {
    messages->insert(messages->begin(), prompt.begin(), prompt.end());
  }
  example.prompt_messages = prompt.size();
  ZEROTH_RETURN_IF_ERROR(ReadTools(json, example));
  return example;
}

absl::Status CheckKeys(RecordKind kind, const nlohmann::ordered_json& json, bool judges) {
  const auto label = json.find("label");
  if (!judges && label != json.end() && *label == false &&
      (kind == RecordKind::kPromptCompletion || kind == RecordKind::kPromptMessages)) {
    return absl::InvalidArgumentError(
        "has \"label\": false, which says that the answer is undesirable; train with "
        "--objective=kto, or leave such records out");
  }
  const auto tools = json.find("tools");
  if (tools != json.end() && !IsEmptyValue(*tools) && !NeedsTemplate(kind)) {
    return InvalidArgument(
        "has \"tools\", which only conversations have; write the record as "
        "\"messages\", or leave the key out");
  }
  for (const absl::string_view key : kRefusedOfRecord) {
    const auto found = json.find(std::string(key));
    if (found == json.end() || IsEmptyValue(*found)) continue;
    if (IsLossMaskKey(key) && ReadLossMask(key, *found).value_or(false)) continue;
    return InvalidArgument(
        "has \"", key, "\", which is not read; ",
        key == "functions" ? std::string("--data_columns=tools=functions reads it as \"tools\"")
        : key == "system"
            ? absl::StrCat(NeedsTemplate(kind) ? "" : "write the record as \"messages\", and ",
                           "write it as the first message, of the role system, or leave the key "
                           "out")
            : "leave the key out if it says nothing about what is to be learned");
  }
  return absl::OkStatus();
}

absl::StatusOr<Example> ParseKind(RecordKind kind, const nlohmann::ordered_json& json,
                                  const ExampleOptions& options) {
  switch (kind) {
    case RecordKind::kAlpaca:
      return ParseAlpaca(json, options.has_template);
    case RecordKind::kPromptCompletion:
      return ParseText(json);
    case RecordKind::kPromptMessages:
      return ParsePromptMessages(json, options.loss_on_all);
    case RecordKind::kPair:
      return ParsePair(json);
    case RecordKind::kPairMessages:
      return ParsePairMessages(json);
    case RecordKind::kText:  // documents.cc reads text
    case RecordKind::kMessages:
    case RecordKind::kShareGpt:
      break;
  }
  return ParseConversation(json, kind);
}

absl::StatusOr<Example> Parse(RecordKind kind, const nlohmann::ordered_json& json,
                              const ExampleOptions& options) {
  ZEROTH_RETURN_IF_ERROR(CheckKeys(kind, json, options.judges));
  ZEROTH_ASSIGN_OR_RETURN(Example example, ParseKind(kind, json, options));
  if (options.judges && !IsPair(kind)) {
    ZEROTH_ASSIGN_OR_RETURN(example.is_desirable, ReadLabel(json));
  }
  return example;
}

}  // namespace

bool NeedsTemplate(RecordKind kind) {
  return kind == RecordKind::kMessages || kind == RecordKind::kShareGpt ||
         kind == RecordKind::kPromptMessages || kind == RecordKind::kPairMessages;
}

bool UsesTemplate(RecordKind kind) { return NeedsTemplate(kind) || kind == RecordKind::kAlpaca; }

std::string AlpacaPrompt(const std::string& instruction, const std::string& input) {
  // https://github.com/tatsu-lab/stanford_alpaca, train.py. A newline follows "### Response:", as
  // in most later trainers.
  const bool has_input = !input.empty();
  return absl::StrCat(
      "Below is an instruction that describes a task",
      has_input ? ", paired with an input that provides further context" : "",
      ". Write a response that appropriately completes the request.\n\n### Instruction:\n",
      instruction, has_input ? absl::StrCat("\n\n### Input:\n", input) : "", "\n\n### Response:\n");
}

absl::StatusOr<Example> ParseExample(RecordKind kind, const JsonRecord& record,
                                     const ExampleOptions& options) {
  ZEROTH_CHECK(kind != RecordKind::kText);
  ZEROTH_RETURN_IF_ERROR(CheckKind(record, kind));
  absl::StatusOr<Example> example = Parse(kind, record.json, options);
  ZEROTH_RETURN_IF_ERROR_WITH(example.status(), record.where);
  return example;
}

}  // namespace zeroth
