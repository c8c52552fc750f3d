// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds the details of a format in what a Jinja template writes, and compares the two.

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/chat/jinja/render.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

using Messages = std::vector<ChatMessage>;
using Kind = JinjaValue::Kind;

constexpr char kSystem[] = "system";
constexpr char kUser[] = "user";
constexpr char kAssistant[] = "assistant";

// Markers of formats that are not known here, and their names.
constexpr std::pair<const char*, const char*> kOtherFormats[] = {
    {"<<SYS>>", "Llama 2"},
    {"[SYSTEM_PROMPT]", "Mistral's of 2025, with [SYSTEM_PROMPT]"},
    {"<start_of_turn>", "Gemma"},
    {"<|header_start|>", "Llama 4"},
    {"<|im_sep|>", "Phi 4"},
    {"<|START_OF_TURN_TOKEN|>", "Command R"},
    {"<\xEF\xBD\x9CUser\xEF\xBD\x9C>", "DeepSeek"},
    {"<|start|>", "Harmony"},
    {"<|user|>", "the one with <|user|>, as Phi 3's, Zephyr's and OLMo's"},
    {"### Instruction", "Alpaca"},
};

// Returns a template's output with the variables that transformers gives it.
absl::StatusOr<std::string> RunJinja(const JinjaNode& jinja,
                                     const ChatTemplate::SpecialTokens& special_tokens,
                                     absl::Span<const ChatMessage> messages, bool opens_reply) {
  JinjaValue::List list;
  for (const ChatMessage& message : messages) {
    JinjaValue::Map members = {{"role", JinjaValue::String(message.role)},
                               {"content", JinjaValue::String(message.content)}};
    if (message.thought.has_value()) {
      members.emplace_back("reasoning_content", JinjaValue::String(*message.thought));
    }
    list.push_back(JinjaValue::Of(std::move(members)));
  }
  JinjaValue::Map variables = {{"messages", JinjaValue::Of(std::move(list))},
                               {"tools", JinjaValue::None()},
                               {"documents", JinjaValue::None()},
                               {"add_generation_prompt", JinjaValue::Bool(opens_reply)}};
  for (const auto& [name, token] : special_tokens) {
    variables.emplace_back(name, JinjaValue::String(token));
  }
  return RenderJinja(jinja, variables);
}

// Both texts around the first byte in which they differ.
std::string Difference(absl::string_view by_template, absl::string_view by_form) {
  constexpr size_t kBefore = 30;
  const auto* const at =
      std::mismatch(by_template.begin(), by_template.end(), by_form.begin(), by_form.end()).first;
  auto begin = static_cast<size_t>(at - by_template.begin());
  begin -= std::min(begin, kBefore);
  // Not within a character.
  while (begin > 0 && begin < by_template.size() &&
         (static_cast<unsigned char>(by_template[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  const auto shown = [begin](absl::string_view text) {
    return absl::StrCat(begin > 0 ? "..." : "", Excerpt(text.substr(begin)));
  };
  return absl::StrCat("the template writes ", shown(by_template), ", the format ", shown(by_form));
}

std::string RolesOf(const Messages& messages) {
  const bool has_system = messages[0].role == kSystem;
  const size_t turns = messages.size() / 2;
  return absl::StrCat(turns, turns == 1 ? " turn" : " turns", has_system ? " and a" : " without a",
                      " system message");
}

// Conversations that tell templates apart.
std::vector<Messages> Probes() {
  const auto talk = [](const std::vector<std::pair<std::string, std::string>>& turns) {
    Messages messages;
    for (const auto& [user, reply] : turns) {
      messages.push_back({kUser, user});
      messages.push_back({kAssistant, reply});
    }
    return messages;
  };
  const auto with = [](const std::string& system, Messages messages) {
    messages.insert(messages.begin(), {kSystem, system});
    return messages;
  };
  const Messages one = talk({{"Hi", "Hello."}});
  const Messages three = talk({{"Hi", "Hello."}, {"And?", "Yes."}, {"Bye", "See you."}});
  const Messages blanks = talk({{" \n x\n\n y\t\n", "\n  z \n"}, {"\n\nu ", " v\n\n"}});
  const Messages unicode = talk(
      {{"\u3000\u4F60\u597D\u00A0", "\u00A0\u4ECA\u65E5\u3000"}, {"\x1C\x62\u0085", "\u2028c"}});
  std::vector<Messages> probes = {
      one,
      three,
      with("Be brief.", one),
      with("Be brief.", three),
      blanks,
      with(" \n s\n\n", blanks),
      unicode,
      with("\u3000s\u00A0", unicode),
      talk({{"Hi", ""}}),
      talk({{"", "a"}}),
      talk({{"Hi", ""}, {"And?", "b"}}),
      talk({{"Hi", "<think>\nt\n</think>\n\na"}, {"And?", "<think>\n\nu\n\n</think>\n\nb"}}),
      talk({{"<think>x</think>", "a</think>b"}, {"And?", "<think>a</think>b</think>\n\nc"}})};
  for (const char* const thought : {"", "\n t\n\n"}) {
    Messages thinks = talk({{"Hi", "Hello."}, {"And?", "\n\nYes."}});
    for (Messages messages : {thinks, with("Be brief.", thinks)}) {
      for (ChatMessage& message : messages) {
        if (message.role == kAssistant) message.thought = thought;
      }
      probes.push_back(std::move(messages));
    }
  }
  return probes;
}

// The text between the first `before` from `at` on and the next `after`.
std::optional<std::string> Between(absl::string_view text, absl::string_view before,
                                   absl::string_view after, size_t at = 0) {
  const size_t found = text.find(before, at);
  if (found == absl::string_view::npos) return std::nullopt;
  const size_t begin = found + before.size();
  const size_t end = text.find(after, begin);
  if (end == absl::string_view::npos) return std::nullopt;
  return std::string(text.substr(begin, end - begin));
}

}  // namespace

// Fits a format to the template in its source_.
class ChatTemplate::Fitting {
 public:
  explicit Fitting(ChatTemplate& chat) : chat_(chat) {}

  // Reads the details from the template's output. Errors of running it.
  absl::Status Fit() {
    const Messages talk = {
        {kUser, "(user1)"}, {kAssistant, "(reply1)"}, {kUser, "(user2)"}, {kAssistant, "(reply2)"}};
    Messages with_system = talk;
    with_system.insert(with_system.begin(), {kSystem, "(system)"});
    ZEROTH_ASSIGN_OR_RETURN(const std::string text, Run(talk, false));
    ZEROTH_ASSIGN_OR_RETURN(const std::string prompt, Run({talk[0]}, true));
    ZEROTH_ASSIGN_OR_RETURN(const std::string closed, Run({talk[0]}, false));
    const std::string system = Run(with_system, false).value_or("");
    with_system.pop_back();
    const std::string system_prompt = Run(with_system, true).value_or("");
    writes_system_ = absl::StrContains(system, "(system)");
    auto source = std::make_shared<Source>(*chat_.source_);
    source->opens_replies = prompt != closed;
    chat_.source_ = std::move(source);
    chat_.format_ == Format::kMistral ? FitMistral(text, system_prompt)
                                      : FitTurns(text, system, prompt);
    return absl::OkStatus();
  }

  // The way to treat blanks and thoughts under which all probes agree.
  absl::Status ChooseByProbes() {
    const std::vector<Messages> probes = Probes();
    size_t most = 0;
    absl::Status nearest;
    for (int i = 0; i < (chat_.format_ == Format::kChatMl ? 16 : 8); ++i) {
      chat_.trims_ = {(i & 1) != 0, (i & 2) != 0, (i & 4) != 0};
      chat_.thinks_ = i >= 8;
      size_t agreed = 0;
      const absl::Status status = Compare(probes, &agreed);
      if (status.ok()) return status;
      if (nearest.ok() || agreed > most) nearest = status;
      most = std::max(most, agreed);
    }
    return InvalidArgument("the chat template is near the format ", chat_.name(),
                           ", but writes another text: ", nearest.message(),
                           ". Expected a template that writes one of the formats that are known "
                           "here; --chat_template=",
                           chat_.name(),
                           " trains on the plain format instead, and saves "
                           "its template with the model");
  }

 private:
  absl::StatusOr<std::string> Run(const Messages& messages, bool opens_reply) const {
    return RunJinja(chat_.source_->jinja, chat_.source_->special_tokens, messages, opens_reply);
  }

  std::string Spelled(int32_t id) const {
    return id < 0 ? "" : chat_.tokenizer_->Decode({id}).value_or("");
  }

  // A single special token, or nothing, before the first turn.
  void FitBeginning(absl::string_view head) {
    if (head.empty()) {
      chat_.begin_of_text_ = -1;
    } else if (absl::StartsWith(head, "<") && absl::EndsWith(head, ">")) {
      chat_.begin_of_text_ = chat_.tokenizer_->Find(head).value_or(chat_.begin_of_text_);
    }
  }

  void FitTurns(absl::string_view text, absl::string_view system, absl::string_view prompt) {
    const std::string begin = Spelled(chat_.begin_of_turn_);
    const std::string end = Spelled(chat_.end_of_turn_);
    const auto header = [&](absl::string_view role) { return chat_.HeaderOf(role); };
    FitBeginning(text.substr(0, text.find(begin)));
    if (text.find(header(kSystem)) == text.find(begin)) {
      chat_.default_system_ = Between(text, header(kSystem), end);
    }
    const auto after = Between(text, absl::StrCat("(reply1)", end), begin);
    if (after.has_value()) chat_.after_turn_ = *after;
    chat_.before_system_ = Between(system, header(kSystem), "(system)").value_or("");
    const size_t opens = prompt.rfind(header(kAssistant));
    if (chat_.source_->opens_replies && opens != absl::string_view::npos) {
      chat_.opened_ = std::string(prompt.substr(opens + header(kAssistant).size()));
    }
  }

  void FitMistral(absl::string_view text, absl::string_view system_prompt) {
    const std::string end = Spelled(chat_.end_of_turn_);
    const std::string begin = Spelled(chat_.begin_of_text_);
    if (!absl::StartsWith(text, begin)) chat_.begin_of_text_ = -1;
    const std::string before =
        Between(text, absl::StartsWith(text, begin) ? begin : "", "(user1)").value_or("");
    const std::string middle = Between(text, "(user1)", "(reply1)").value_or("");
    const size_t close = middle.find("[/INST]");
    if (absl::StrContains(before, "[INST]") && close != std::string::npos) {
      chat_.before_user_ = before;
      chat_.after_user_ = middle.substr(0, close + 7);
      chat_.before_reply_ = middle.substr(close + 7);
    }
    chat_.after_reply_ = Between(text, "(reply1)", end).value_or("");
    const std::string next =
        Between(text, absl::StrCat("(reply1)", chat_.after_reply_, end), "(user2)").value_or("");
    absl::string_view after = next;
    if (absl::ConsumeSuffix(&after, before)) chat_.after_turn_ = std::string(after);
    const size_t place = system_prompt.find("(system)");
    if (place != absl::string_view::npos && place > system_prompt.find("(reply1)")) {
      chat_.system_place_ = SystemPlace::kBeforeLast;
    }
  }

  absl::Status Compare(const std::vector<Messages>& probes, size_t* agreed) const {
    for (const Messages& probe : probes) {
      // A template that refuses the system's messages, or leaves them out, as Mistral's of 0.3 does
      // except in a prompt, fits conversations without them: the others are refused one by one.
      if (probe[0].role == kSystem && !writes_system_) continue;
      for (const bool opens_reply : {false, true}) {
        const absl::Span<const ChatMessage> messages =
            absl::MakeConstSpan(probe).first(probe.size() - (opens_reply ? 1 : 0));
        // Thoughts that no format here writes are refused in each conversation.
        if (!chat_.Spell(messages, opens_reply).ok()) continue;
        const absl::Status status = chat_.CheckAgainstJinja(messages, opens_reply);
        ZEROTH_RETURN_IF_ERROR_WITH(
            status, absl::StrCat(opens_reply ? "for a prompt of " : "for a conversation of ",
                                 RolesOf(probe)));
      }
      ++*agreed;
    }
    return absl::OkStatus();
  }

  ChatTemplate& chat_;
  bool writes_system_ = false;  // the system's message, in a conversation that ends with a reply
};

std::string ChatTemplate::HeaderOf(absl::string_view role) const {
  const auto spelled = [&](int32_t id) { return tokenizer_->Decode({id}).value_or(""); };
  const bool has_end = format_ == Format::kLlama3;
  return absl::StrCat(spelled(begin_of_turn_), role, has_end ? spelled(end_of_header_) : "",
                      has_end ? "\n\n" : "\n");
}

absl::Status ChatTemplate::CheckAgainstJinja(absl::Span<const ChatMessage> messages,
                                             bool opens_reply) const {
  if (source_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<std::string> by_template =
      RunJinja(source_->jinja, source_->special_tokens, messages, opens_reply);
  if (absl::IsFailedPrecondition(by_template.status())) {
    return FailedPrecondition("the model's chat template refuses the conversation: ",
                              Excerpt(by_template.status().message()));
  }
  ZEROTH_RETURN_IF_ERROR_WITH(by_template.status(), "the model's chat template");
  // A template without add_generation_prompt leaves the header of a reply to the program.
  ZEROTH_ASSIGN_OR_RETURN(const std::string by_form,
                          Spell(messages, opens_reply && source_->opens_replies));
  if (*by_template == by_form) return absl::OkStatus();
  return InvalidArgument(Difference(*by_template, by_form));
}

absl::StatusOr<ChatTemplate> ChatTemplate::FromJinja(
    absl::string_view jinja, const Tokenizer& tokenizer,
    const std::optional<SpecialTokens>& special_tokens) {
  for (const auto& [marker, name] : kOtherFormats) {
    if (!absl::StrContains(jinja, marker)) continue;
    return InvalidArgument(
        "the chat template is ", name,
        ", which is not known here; expected ChatML, Llama 3's or Mistral's. If the tokenizer has "
        "the tokens of one of these, --chat_template=chatml, llama3 or mistral names it");
  }
  static constexpr std::pair<absl::string_view, Format> kMarkers[] = {
      {"<|im_start|>", Format::kChatMl},
      {"<|start_header_id|>", Format::kLlama3},
      {"[INST]", Format::kMistral}};
  for (const auto& [marker, format] : kMarkers) {
    if (!absl::StrContains(jinja, marker)) continue;
    ZEROTH_ASSIGN_OR_RETURN(ChatTemplate result, Create(format, tokenizer));
    Source source;
    const std::string unread = absl::StrCat("the chat template (", result.name(),
                                            ") cannot be run here; --chat_template=", result.name(),
                                            " trains on the plain format instead");
    auto parsed = ParseJinja(jinja);
    ZEROTH_RETURN_IF_ERROR_WITH(parsed.status(), unread);
    source.jinja = *std::move(parsed);
    if (special_tokens.has_value()) {
      source.special_tokens = *special_tokens;
    } else {
      source.special_tokens["eos_token"] = tokenizer.Decode({tokenizer.end_of_text()}).value_or("");
      if (!tokenizer.prefix().empty()) {
        source.special_tokens["bos_token"] =
            tokenizer.Decode(tokenizer.prefix().first(1)).value_or("");
      }
    }
    result.source_ = std::make_shared<const Source>(std::move(source));
    Fitting fitting(result);
    ZEROTH_RETURN_IF_ERROR_WITH(fitting.Fit(), unread);
    ZEROTH_RETURN_IF_ERROR(fitting.ChooseByProbes());
    return result;
  }
  return InvalidArgument(
      "the chat template is none that is known here: it has neither <|im_start|> "
      "(ChatML), nor <|start_header_id|> (Llama 3), nor [INST] (Mistral), and begins with ",
      Excerpt(jinja),
      ". If the tokenizer has the tokens of one of these, --chat_template=chatml, "
      "llama3 or mistral names it");
}

}  // namespace zeroth
