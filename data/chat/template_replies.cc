// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Renders a template, and finds the assistant's replies in the text.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/chat/jinja/text.h"

namespace zeroth {
namespace {

constexpr char kUser[] = "user";
constexpr char kAssistant[] = "assistant";

absl::string_view CommonBeginning(absl::string_view a, absl::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t size = 0;
  while (size < most && a[size] == b[size]) ++size;
  return a.substr(0, size);
}

// Shows both texts around the first byte in which they differ.
std::string Difference(absl::string_view text, absl::string_view prompt) {
  constexpr size_t kBefore = 30;
  size_t begin = CommonBeginning(text, prompt).size();
  begin -= std::min(begin, kBefore);
  // Does not begin within a character.
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const auto shown = [begin](absl::string_view whole) {
    return absl::StrCat(begin > 0 ? "..." : "", Excerpt(whole.substr(begin)));
  };
  return absl::StrCat("the chat template writes ", shown(text), ", but as a prompt ",
                      shown(prompt));
}

struct Ending {
  size_t begin = 0;
  size_t end = 0;  // of the first special token, and of those that follow at once
  int32_t last = -1;
};

// Returns the first special token of the text, and the special tokens that directly follow it
// within text[0, limit).
absl::StatusOr<std::optional<Ending>> FirstSpecial(const Tokenizer& tokenizer,
                                                   absl::string_view text, size_t limit) {
  std::optional<Ending> result;
  size_t at = 0;
  ZEROTH_RETURN_IF_ERROR(
      tokenizer.SplitSpecial(text, [&](absl::string_view part, std::optional<int32_t> token) {
        const bool within = !result.has_value() || (at == result->end && at + part.size() <= limit);
        if (token.has_value() && within) {
          // Some tokens include the whitespace around them, which is left out here.
          const absl::string_view spelled = StripPython(part);
          const size_t begin = at + static_cast<size_t>(spelled.data() - part.data());
          if (!result.has_value()) result = Ending{begin, 0, 0};
          result->end = begin + spelled.size();
          result->last = *token;
        }
        at += part.size();
        return absl::OkStatus();
      }));
  return result;
}

bool IsBlank(absl::string_view text) { return StripPython(text).empty(); }

// The last special token of a text; -1: none.
absl::StatusOr<int32_t> LastSpecial(const Tokenizer& tokenizer, absl::string_view text) {
  int32_t last = -1;
  ZEROTH_RETURN_IF_ERROR(
      tokenizer.SplitSpecial(text, [&](absl::string_view, std::optional<int32_t> token) {
        last = token.value_or(last);
        return absl::OkStatus();
      }));
  return last;
}

// Cuts `common`, the common prefix of two texts, after its last special token, tag or whitespace,
// so that it ends inside no token or tag of either text. Empty if letters or digits follow that
// place.
absl::StatusOr<absl::string_view> CutAtToken(const Tokenizer& tokenizer, absl::string_view common) {
  size_t special = 0;
  size_t at = 0;
  ZEROTH_RETURN_IF_ERROR(
      tokenizer.SplitSpecial(common, [&](absl::string_view part, std::optional<int32_t> token) {
        at += part.size();
        if (token.has_value()) special = at;
        return absl::OkStatus();
      }));
  const size_t border = common.find_last_of(" \n\t>]");
  const size_t end = std::max(special, border == absl::string_view::npos ? 0 : border + 1);
  const absl::string_view rest = common.substr(end);
  const bool has_letters = std::any_of(rest.begin(), rest.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           (static_cast<unsigned char>(c) & 0x80) != 0;
  });
  return has_letters ? absl::string_view() : common.substr(0, end);
}

}  // namespace

absl::StatusOr<std::string> ChatTemplate::Run(absl::Span<const ChatMessage> messages,
                                              const ChatTools& tools, bool opens_reply,
                                              std::vector<JinjaSpan>* generated) const {
  JinjaValue::List list;
  for (const ChatMessage& message : messages) {
    JinjaValue::Map members = {{"role", JinjaValue::String(message.role)}};
    if (message.has_content) members.emplace_back("content", JinjaValue::String(message.content));
    if (!message.tool_calls.empty()) {
      members.emplace_back("tool_calls", JinjaValue::OfJson(message.tool_calls));
    }
    for (const auto& [name, text] :
         {std::pair("name", &message.name), std::pair("tool_call_id", &message.tool_call_id)}) {
      if (!text->empty()) members.emplace_back(name, JinjaValue::String(*text));
    }
    if (message.thought.has_value()) {
      // The second is Harmony's name, which transformers adds as well.
      for (const char* const name : {"reasoning_content", "thinking"}) {
        members.emplace_back(name, JinjaValue::String(*message.thought));
      }
    }
    list.push_back(JinjaValue::Of(std::move(members)));
  }
  JinjaValue::Map variables = {{"messages", JinjaValue::Of(std::move(list))},
                               {"tools", JinjaValue::OfJson(tools)},
                               {"documents", JinjaValue::None()},
                               {"add_generation_prompt", JinjaValue::Bool(opens_reply)}};
  for (const auto& [name, token] : source_->special_tokens) {
    variables.emplace_back(name, JinjaValue::String(token));
  }
  absl::StatusOr<std::string> text = RenderJinja(source_->jinja, variables, generated);
  if (absl::IsFailedPrecondition(text.status())) {
    return FailedPrecondition("the chat template refuses the conversation: ",
                              Excerpt(text.status().message()));
  }
  const bool has_calls = std::any_of(messages.begin(), messages.end(), [](const auto& message) {
    return !message.tool_calls.empty();
  });
  ZEROTH_RETURN_IF_ERROR_WITH(text.status(),
                              has_calls ? "the chat template cannot be run here for tool calls"
                                        : "the chat template cannot be run here");
  return text;
}

absl::Status ChatTemplate::Probe(const ChatTools& tools) {
  std::vector<ChatMessage> talk = {
      {kUser, "(user1)"}, {kAssistant, "(reply1)"}, {kUser, "(user2)"}, {kAssistant, "(reply2)"}};
  const absl::Span<const ChatMessage> all = talk;
  std::vector<JinjaSpan> generated;
  ZEROTH_ASSIGN_OR_RETURN(const std::string written, Run(all, tools, false, &generated));
  const absl::string_view text = written;
  marks_replies_ = !generated.empty();
  std::vector<size_t> places;
  for (const ChatMessage& message : talk) {
    places.push_back(text.find(message.content, places.empty() ? 0 : places.back()));
    if (places.back() != absl::string_view::npos) continue;
    return InvalidArgument("the chat template writes ", Excerpt(text),
                           " for four messages, expected the content of each in turn; it does not "
                           "write ",
                           message.content,
                           ". A template gets messages with role and content, also for ShareGPT's "
                           "from and value");
  }
  const absl::string_view after_last = text.substr(places[3] + talk[3].content.size());
  const size_t earlier = places[1] + talk[1].content.size();
  const absl::string_view after_earlier = text.substr(earlier, places[2] - earlier);
  // Several tokens may end a turn. The tokens behind the common beginning open the next turn.
  const size_t common = CommonBeginning(after_last, after_earlier).size();
  ZEROTH_ASSIGN_OR_RETURN(const auto last, FirstSpecial(*tokenizer_, after_last, common));
  ZEROTH_ASSIGN_OR_RETURN(const auto first, FirstSpecial(*tokenizer_, after_earlier, common));
  if (!last.has_value()) {
    return InvalidArgument(
        "the chat template writes ", Excerpt(after_last),
        " behind the last reply, in which the tokenizer (", tokenizer_->name(),
        ") finds no special token (an added token counts only if it is special): a model would not "
        "learn to end its turn. Expected the tokenizer of a model that chats in this format, "
        "another --chat_template, or --new_tokens for what a tokenizer.json lacks");
  }
  if (marks_replies_) {
    const size_t token = places[3] + talk[3].content.size() + last->begin;
    const bool is_marked = std::any_of(
        generated.begin(), generated.end(),
        [&](const JinjaSpan& span) { return span.begin <= token && token + 1 <= span.end; });
    if (!is_marked) {
      return InvalidArgument(
          "the chat template's {% generation %} blocks leave out the special token behind the last "
          "reply, ",
          Excerpt(after_last.substr(last->begin)),
          ": a model would not learn to end its turn. Expected the block to end behind it");
    }
  }
  end_of_turn_ = last->last;
  after_last_ = std::string(after_last.substr(last->begin));
  end_of_last_ = last->end - last->begin;
  // A token that also opens the user's first turn ends no reply.
  ZEROTH_ASSIGN_OR_RETURN(const int32_t opens_user,
                          LastSpecial(*tokenizer_, text.substr(0, places[0])));
  if (first.has_value() && (first->last != opens_user || first->last == last->last)) {
    after_earlier_ = std::string(after_earlier.substr(first->begin));
    end_of_earlier_ = first->end - first->begin;
  }
  if (const auto blanks = after_last.substr(0, last->begin); IsBlank(blanks)) {
    blanks_after_ = std::string(blanks);
  }
  const absl::StatusOr<std::string> closed = Run(all.first(1), tools, false);
  const absl::StatusOr<std::string> later = Run(all.first(3), tools, false);
  const absl::StatusOr<std::string> prompt = Run(all.first(1), tools, true);
  if (closed.ok() && later.ok() && prompt.ok() && absl::StartsWith(text, *closed) &&
      absl::StartsWith(text, *later) && closed->size() <= places[1] && later->size() <= places[3]) {
    const absl::string_view before = text.substr(later->size(), places[3] - later->size());
    absl::string_view opening =
        CommonBeginning(before, text.substr(closed->size(), places[1] - closed->size()));
    const bool opens = *prompt != *closed && absl::StartsWith(*prompt, *closed);
    if (opens) {
      const absl::string_view opened = absl::string_view(*prompt).substr(closed->size());
      opening = CommonBeginning(opening, opened);
      if (opening != opened) {
        ZEROTH_ASSIGN_OR_RETURN(opening, CutAtToken(*tokenizer_, opening));
        // The role is in what follows if a user's turn begins alike, and that must not differ.
        ZEROTH_ASSIGN_OR_RETURN(const absl::string_view ended,
                                CutAtToken(*tokenizer_, after_earlier.substr(0, common)));
        const absl::string_view user = after_earlier.substr(
            std::max(ended.size(), after_earlier_.empty() ? size_t{0} : first->end));
        const bool differs =
            CommonBeginning(opened, before).size() < std::min(opened.size(), before.size());
        if (differs && absl::StartsWith(user, opening)) opening = "";
      }
    } else {
      ZEROTH_ASSIGN_OR_RETURN(const auto special,
                              FirstSpecial(*tokenizer_, opening, opening.size()));
      if (!special.has_value()) opening = "";
      header_ = std::string(opening);
    }
    opening_ = std::string(opening);
    const absl::string_view blanks = before.substr(opening.size());
    if (IsBlank(blanks)) blanks_before_ = std::string(blanks);
  }
  talk[3].thought = "(thought2)";
  writes_thoughts_ = absl::StrContains(Run(all, tools, false).value_or(""), *talk[3].thought);
  return absl::OkStatus();
}

absl::StatusOr<size_t> ChatTemplate::BeginOfReply(absl::string_view text,
                                                  absl::Span<const ChatMessage> before,
                                                  const ChatTools& tools) const {
  ZEROTH_ASSIGN_OR_RETURN(const std::string prompt, Run(before, tools, /*opens_reply=*/true));
  if (header_.empty() && absl::StartsWith(text, prompt)) return prompt.size();
  // Prompts may open thoughts that earlier replies do not have.
  const std::string closed =
      absl::StrCat(Run(before, tools, /*opens_reply=*/false).value_or(prompt), opening_);
  if (!opening_.empty() && absl::StartsWith(text, closed)) return closed.size();
  return InvalidArgument(Difference(text, prompt),
                         "; so the assistant's tokens cannot be found. Expected a prompt that "
                         "opens a reply as conversations do: fix the template");
}

absl::StatusOr<size_t> ChatTemplate::EndOfCalls(absl::string_view text, size_t begin,
                                                absl::Span<const ChatMessage> messages,
                                                const ChatTools& tools) const {
  // The token that ends calls is the last special one if nothing follows them.
  ZEROTH_ASSIGN_OR_RETURN(const std::string written, Run(messages, tools, false));
  absl::string_view ended = written;
  size_t at = 0;
  size_t end = 0;
  ZEROTH_RETURN_IF_ERROR(
      tokenizer_->SplitSpecial(written, [&](absl::string_view part, std::optional<int32_t> token) {
        at += part.size();
        if (token.has_value()) {
          end = at - (part.size() - StripPython(part, std::nullopt, false, true).size());
        }
        return absl::OkStatus();
      }));
  if (!IsBlank(ended.substr(end))) {
    return InvalidArgument("the chat template writes ", Excerpt(ended.substr(end)),
                           " behind the last special token of the tool calls of message ",
                           messages.size(),
                           ", expected a special token at their end; so it cannot be said where "
                           "they end");
  }
  ended = ended.substr(0, end);
  if (end > begin && absl::StartsWith(text, ended)) return end;
  // Templates may open thoughts in the last message only. So the rest of the message, with all of
  // the last call, must also occur in the longer conversation.
  const absl::string_view reply = text.substr(begin);
  const auto& call = messages.back().tool_calls.back();
  const std::string name = call["function"]["name"].get<std::string>();
  for (size_t size = std::min(reply.size(), ended.size()); size > name.size(); --size) {
    const absl::string_view common = reply.substr(0, size);
    if (absl::EndsWith(ended, common) && absl::StrContains(common, name)) return begin + size;
  }
  return InvalidArgument(Difference(text, written),
                         "; so it cannot be said where the tool calls of message ", messages.size(),
                         " end");
}

absl::StatusOr<std::vector<JinjaSpan>> ChatTemplate::RepliesIn(
    absl::string_view text, absl::Span<const ChatMessage> messages, const ChatTools& tools) const {
  std::vector<JinjaSpan> replies;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != kAssistant) continue;
    ZEROTH_ASSIGN_OR_RETURN(const size_t begin, BeginOfReply(text, messages.first(i), tools));
    if (!messages[i].tool_calls.empty()) {
      ZEROTH_ASSIGN_OR_RETURN(const size_t end,
                              EndOfCalls(text, begin, messages.first(i + 1), tools));
      replies.push_back({begin, end});
      continue;
    }
    const bool is_last = i + 1 == messages.size();
    const std::string& after = is_last ? after_last_ : after_earlier_;
    size_t place = absl::string_view::npos;
    if (!after.empty()) place = is_last ? text.rfind(after) : text.find(after, begin);
    const bool ends = place != absl::string_view::npos && place >= begin &&
                      (!is_last || place + after.size() == text.size());
    if (!ends) {
      return InvalidArgument("the chat template writes ", Excerpt(text.substr(begin)),
                             " as message ", i + 1, ", expected it to end with ",
                             after.empty() ? "a special token" : Excerpt(after),
                             ", as for other replies; so it cannot be said where it ends");
    }
    if (!replies.empty() && replies.back().end > begin) {
      return InvalidArgument("the chat template writes ",
                             Excerpt(text.substr(replies.back().begin)), " for message ", i - 1,
                             ", in which no reply ends as others do before the next one begins; so "
                             "it cannot be said where it ends");
    }
    replies.push_back({begin, place + (is_last ? end_of_last_ : end_of_earlier_)});
  }
  return replies;
}

}  // namespace zeroth
