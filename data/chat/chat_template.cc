// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/chat_template.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

struct Plain {
  absl::string_view name;
  std::vector<absl::string_view> tokens;
  absl::string_view jinja;
};

const std::vector<Plain>& PlainTemplates() {
  static const auto* const kTemplates = new std::vector<Plain>{
      {"chatml", {"<|im_start|>", "<|im_end|>"}, R"({% for message in messages %}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
      {"llama3",
       {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       R"({{ '<|begin_of_text|>' }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}
{{- (message['content'] | trim) + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
      {"mistral", {"<s>", "</s>"}, R"({{ '<s>' }}
{%- set has_system = messages[0]['role'] == 'system' %}
{%- set system = messages[0]['content'] if has_system else '' %}
{%- set system = system + '\n\n' if system else '' %}
{%- for message in (messages[1:] if has_system else messages) %}
{%- if message['role'] == 'user' %}
{{- '[INST] ' + (system if loop.first else '') + message['content'] + ' [/INST]' }}
{%- else %}
{{- ' ' + message['content'] + '</s>' }}
{%- endif %}
{%- endfor %})"}};
  return *kTemplates;
}

constexpr char kProbeTools[] = R"([{"type": "function", "function": {"name": "look_up",
    "description": "Looks a word up.", "parameters": {"type": "object", "properties":
    {"word": {"type": "string", "description": "The word."}}, "required": ["word"]}}}])";

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Named(absl::string_view name,
                                                 const Tokenizer& tokenizer) {
  for (const Plain& plain : PlainTemplates()) {
    if (name != plain.name) continue;
    for (const absl::string_view token : plain.tokens) {
      if (tokenizer.Find(token).has_value()) continue;
      return InvalidArgument(
          "the chat template ", name, " needs a token ", token, ", which the tokenizer (",
          tokenizer.name(),
          ") does not have; expected the --tokenizer of a model that chats in this format, another "
          "--chat_template, or, to train with a tokenizer.json, --new_tokens=",
          absl::StrJoin(plain.tokens, ","));
    }
    // A token since Mistral's version 0.3, text before it.
    const bool has_token = tokenizer.Find("[/INST]").has_value();
    return FromJinja(
        absl::StrReplaceAll(plain.jinja, {{" [/INST]", has_token ? "[/INST]" : " [/INST]"}}),
        tokenizer);
  }
  return InvalidArgument("chat template \"", name,
                         "\", expected chatml, llama3, mistral, or the path of a .jinja file");
}

absl::StatusOr<ChatTemplate> ChatTemplate::FromJinja(
    absl::string_view jinja, const Tokenizer& tokenizer,
    const std::optional<SpecialTokens>& special_tokens, absl::string_view tool_use) {
  SpecialTokens tokens;
  if (special_tokens.has_value()) {
    tokens = *special_tokens;
  } else {
    tokens["eos_token"] = tokenizer.Decode({tokenizer.end_of_text()}).value_or("");
    if (const auto begin = tokenizer.begin_of_text(); begin.has_value()) {
      tokens["bos_token"] = tokenizer.Decode({*begin}).value_or("");
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(ChatTemplate result, Compile(jinja, tokenizer, tokens, ChatTools()));
  if (tool_use.empty()) return result;
  // Some templates need tools.
  absl::StatusOr<ChatTemplate> for_tools =
      Compile(tool_use, tokenizer, tokens, ChatTools::parse(kProbeTools));
  if (for_tools.ok() && for_tools->end_of_turn_ != result.end_of_turn_) {
    const auto name = [&](int32_t token) { return tokenizer.Decode({token}).value_or(""); };
    for_tools = InvalidArgument(
        "ends the assistant's turn by ", Excerpt(name(for_tools->end_of_turn_)),
        ", and the one named default by ", Excerpt(name(result.end_of_turn_)),
        "; expected the same token, by which the model stops. Choose another --chat_template");
  }
  result.tool_use_ = std::make_shared<const absl::StatusOr<ChatTemplate>>(std::move(for_tools));
  return result;
}

absl::StatusOr<ChatTemplate> ChatTemplate::Compile(absl::string_view jinja,
                                                   const Tokenizer& tokenizer,
                                                   const SpecialTokens& special_tokens,
                                                   const ChatTools& tools) {
  auto parsed = ParseJinja(jinja);
  ZEROTH_RETURN_IF_ERROR_WITH(parsed.status(), "the chat template cannot be run here");
  ChatTemplate result(tokenizer, std::make_shared<const Source>(Source{
                                     std::string(jinja), *std::move(parsed), special_tokens}));
  ZEROTH_RETURN_IF_ERROR(result.Probe(tools));
  return result;
}

std::string ChatTemplate::Identity() const {
  const auto text = [](const std::string& part) { return absl::StrCat(part.size(), ":", part); };
  std::string identity = text(source_->text);
  for (const auto& [name, token] : source_->special_tokens) {
    absl::StrAppend(&identity, text(name), text(token));
  }
  if (tool_use_ != nullptr) {
    absl::StrAppend(&identity, "tool_use",
                    tool_use_->ok() ? text((*tool_use_)->source_->text) : "");
  }
  return identity;
}

absl::string_view ChatTemplate::ReplyOf(absl::string_view generated) const {
  absl::ConsumePrefix(&generated, blanks_before_);
  absl::ConsumeSuffix(&generated, blanks_after_);
  return generated;
}

absl::StatusOr<ChatTemplate::Conversation> ChatTemplate::Render(
    absl::Span<const ChatMessage> messages, const ChatTools& tools) const {
  ZEROTH_RETURN_IF_ERROR(CheckTurns(messages, "assistant"));
  return Write(messages, tools, /*opens_reply=*/false);
}

absl::StatusOr<std::vector<int32_t>> ChatTemplate::RenderPrompt(
    absl::Span<const ChatMessage> messages, const ChatTools& tools) const {
  ZEROTH_RETURN_IF_ERROR(CheckTurns(messages, "user"));
  ZEROTH_ASSIGN_OR_RETURN(Conversation prompt, Write(messages, tools, /*opens_reply=*/true));
  return std::move(prompt.ids);
}

absl::StatusOr<ChatTemplate::Conversation> ChatTemplate::Write(
    absl::Span<const ChatMessage> messages, const ChatTools& tools, bool opens_reply) const {
  if (!tools.empty() && tool_use_ != nullptr) {
    ZEROTH_RETURN_IF_ERROR_WITH(tool_use_->status(), "the chat template named tool_use");
    return (*tool_use_)->Write(messages, tools, opens_reply);
  }
  for (const ChatMessage& message : messages) {
    const bool writes = writes_thoughts_ && message.role == "assistant";
    if (message.thought.value_or("").empty() || writes) continue;
    return InvalidArgument("message ", &message - messages.data() + 1,
                           " has \"reasoning_content\", which the chat template does not write",
                           writes_thoughts_ ? " for others than the assistant" : "");
  }
  std::vector<ChatMessage> marked(messages.begin(), messages.end());
  ChatTools marked_tools = tools;
  ZEROTH_ASSIGN_OR_RETURN(const std::string mark, MarkSpecial(marked, marked_tools));
  std::vector<JinjaSpan> replies;
  absl::StatusOr<std::string> run = Run(marked, marked_tools, opens_reply, &replies);
  if (absl::IsInvalidArgument(run.status())) {
    return ExplainFailure(run.status(), std::move(marked), marked_tools);
  }
  ZEROTH_ASSIGN_OR_RETURN(std::string text, std::move(run));
  if (!mark.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(const std::string plain, Run(messages, tools, opens_reply));
    if (absl::StrReplaceAll(text, {{mark, ""}}) != plain) {
      return InvalidArgument(
          "a message spells a special token, for which the chat template looks: it writes ",
          Excerpt(plain),
          ". Expected special tokens by the template only; remove it from the "
          "message");
    }
  }
  if (messages[0].role == "system" && !absl::StrContains(text, StripPython(marked[0].content))) {
    return InvalidArgument("the chat template leaves the system's message out: it writes ",
                           Excerpt(text),
                           "; remove the message, or choose another --chat_template");
  }
  ZEROTH_RETURN_IF_ERROR(CheckWritesTools(text, replies, marked, marked_tools));
  if (opens_reply) {
    text += header_;
    replies.clear();
  } else if (!marks_replies_) {
    ZEROTH_ASSIGN_OR_RETURN(replies, RepliesIn(text, marked, marked_tools));
  } else if (std::all_of(replies.begin(), replies.end(),
                         [](const JinjaSpan& reply) { return reply.begin == reply.end; })) {
    return InvalidArgument(
        "no {% generation %} block of the chat template writes anything for the conversation, so "
        "nothing would be trained");
  }
  return Encode(text, replies, mark);
}

absl::StatusOr<ChatTemplate::Conversation> ChatTemplate::Encode(absl::string_view text,
                                                                absl::Span<const JinjaSpan> replies,
                                                                absl::string_view mark) const {
  Conversation result;
  std::string pending;  // text that is not encoded yet, of one speaker
  bool by_assistant = false;
  bool follows_text = false;
  const auto add = [&](absl::Span<const int32_t> ids) {
    result.ids.insert(result.ids.end(), ids.begin(), ids.end());
    result.by_assistant.resize(result.ids.size(), by_assistant);
  };
  const auto flush = [&]() -> absl::Status {
    const std::string piece = absl::StrReplaceAll(std::exchange(pending, ""), {{mark, ""}});
    if (piece.empty()) return absl::OkStatus();
    const bool follows_token = !follows_text && !result.ids.empty();
    follows_text = true;
    return follows_token ? tokenizer_->EncodeAfterToken(piece, add)
                         : tokenizer_->EncodeTo(piece, /*continues=*/result.ids.size() > 0, add);
  };
  size_t at = 0;
  // Sets the speaker of the text from here on. If the speaker changes, first encodes the text
  // before it.
  const auto switch_to = [&](bool speaker) -> absl::Status {
    if (speaker != by_assistant) ZEROTH_RETURN_IF_ERROR(flush());
    by_assistant = speaker;
    return absl::OkStatus();
  };
  const JinjaSpan* reply = replies.begin();
  const auto advance = [&] {
    while (reply != replies.end() && at >= reply->end) ++reply;
    return reply != replies.end() && at >= reply->begin;
  };
  const auto take = [&](absl::string_view part, std::optional<int32_t> token) -> absl::Status {
    const size_t end = at + part.size();
    if (token.has_value()) {
      // Some tokens include the whitespace around them.
      at += part.size() - StripPython(part, std::nullopt, /*left=*/true, false).size();
      ZEROTH_RETURN_IF_ERROR(flush());
      ZEROTH_RETURN_IF_ERROR(switch_to(advance()));
      add(absl::MakeConstSpan(&*token, 1));
      follows_text = false;
      at = end;
      return absl::OkStatus();
    }
    while (at < end) {
      ZEROTH_RETURN_IF_ERROR(switch_to(advance()));
      size_t next = end;
      if (reply != replies.end()) next = std::min(end, by_assistant ? reply->end : reply->begin);
      absl::StrAppend(&pending, text.substr(at, next - at));
      at = next;
    }
    return absl::OkStatus();
  };
  ZEROTH_RETURN_IF_ERROR(tokenizer_->SplitSpecial(text, take));
  ZEROTH_RETURN_IF_ERROR(flush());
  return result;
}

}  // namespace zeroth
