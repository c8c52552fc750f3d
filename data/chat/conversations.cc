// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/conversations.h"

#include <algorithm>
#include <cstddef>
#include <string>
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

namespace zeroth {
namespace {

// Number of latest rows that a conversation may still go into.
constexpr size_t kOpenRows = 32;

// Packs conversations into rows.
class RowPacker {
 public:
  RowPacker(int64_t row_length, int32_t padding)
      : length_(static_cast<size_t>(row_length)), padding_(padding) {}

  // Adds a conversation of at most a row, with a mark for each id.
  void Add(absl::Span<const int32_t> ids, absl::Span<const uint8_t> marks) {
    ZEROTH_CHECK(ids.size() <= length_ && ids.size() == marks.size());
    size_t row = filled_.size() > kOpenRows ? filled_.size() - kOpenRows : 0;
    while (row < filled_.size() && filled_[row] + ids.size() > length_) ++row;
    if (row == filled_.size()) {
      filled_.push_back(0);
      ids_.resize(filled_.size() * length_, padding_);
      marks_.resize(ids_.size(), kNoTarget);
    }
    const auto place = static_cast<std::ptrdiff_t>(row * length_ + filled_[row]);
    std::copy(ids.begin(), ids.end(), ids_.begin() + place);
    std::copy(marks.begin(), marks.end(), marks_.begin() + place);
    filled_[row] += ids.size();
    if (filled_[row] < length_) marks_[row * length_ + filled_[row]] = kNoTarget | kBeginsDocument;
  }

  bool empty() const { return ids_.empty(); }

  std::shared_ptr<const TokenSource> Build(TokenSource::Facts facts) && {
    facts.row_length = static_cast<int64_t>(length_);
    return std::make_shared<const TokensInMemory<int32_t>>(std::move(ids_), std::move(facts),
                                                           std::move(marks_));
  }

 private:
  const size_t length_;
  const int32_t padding_;
  std::vector<int32_t> ids_;
  std::vector<uint8_t> marks_;
  std::vector<size_t> filled_;  // number of tokens in each row
};

// Counts conversations, and those that were longer than a row.
struct Cuts {
  int64_t conversations = 0;
  int64_t cut = 0;
  int64_t left_out = 0;
  size_t longest = 0;
  std::string first;  // where the first long one is: file and line

  std::vector<std::string> Notes(int64_t seq_len) const {
    if (cut + left_out == 0) return {};
    return {absl::StrCat("data      of ", conversations, " conversations, ", cut + left_out,
                         " are longer than --seq_len=", seq_len, ", the first in ", first, ": ",
                         cut, " are cut there, and ", left_out,
                         " left out, since the assistant says nothing before it; --seq_len=",
                         longest - 1, " would hold the longest")};
  }
};

std::vector<uint8_t> MarksOf(const ChatTemplate::Conversation& conversation, bool loss_on_all) {
  std::vector<uint8_t> marks(conversation.ids.size(), 0);
  for (size_t i = 0; i < marks.size(); ++i) {
    if (!loss_on_all && !conversation.by_assistant[i]) marks[i] |= kNoTarget;
  }
  // The token before the first one is of another conversation.
  marks[0] |= kNoTarget | kBeginsDocument;
  return marks;
}

// True for a value without content: null, "", [] and {}.
bool IsNothing(const nlohmann::json& value) {
  return value.empty() || (value.is_string() && value.get_ref<const std::string&>().empty());
}

// Keys beside the messages that would change what is learned. Ignoring tools, for example, would
// leave their calls out silently. All other keys describe the record.
constexpr absl::string_view kRefusedOfRecord[] = {"tools",         "functions",
                                                  "function_call", "tool_choice",
                                                  "system",        "documents",
                                                  "images",        "image",
                                                  "videos",        "video",
                                                  "audios",        "audio",
                                                  "chat_template", "chat_template_kwargs",
                                                  "weight",        "loss",
                                                  "trainable",     "loss_mask",
                                                  "masks"};

// Keys of a message that describe it. No template here writes them, and transformers does not
// either with such a template.
constexpr absl::string_view kDescribesMessage[] = {
    "id",   "message_id", "parent_id", "name",  "user_id",    "model",      "source",
    "lang", "language",   "metadata",  "date",  "timestamp",  "created_at", "index",
    "turn", "tokens",     "rating",    "score", "annotations"};

// Keys that say whether a message is learned.
constexpr absl::string_view kLearned[] = {"weight", "loss", "trainable"};

bool IsOneOf(absl::string_view key, absl::Span<const absl::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Reads the value of a key of kLearned. Weights between 0 and 1 are refused: the loss has none.
absl::StatusOr<bool> ReadLearned(absl::string_view key, const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number() && (value == 0 || value == 1)) return value == 1;
  return InvalidArgument("has \"", key, "\": ", Shorten(value.dump(-1, ' ', true)),
                         ", expected 0 or false (not learned), or 1 or true");
}

absl::StatusOr<ChatMessage> ParseMessage(const nlohmann::json& entry) {
  if (!entry.is_object()) return absl::InvalidArgumentError("is no object");
  if (entry.contains("from") && entry.contains("value")) {
    return absl::InvalidArgumentError(
        "has the ShareGPT format's \"from\" and \"value\", expected \"role\" (system, user or "
        "assistant) and \"content\"");
  }
  ChatMessage message;
  for (const auto& [key, value] : entry.items()) {
    if (key == "role" || key == "content" || IsNothing(value)) continue;
    if (key == "reasoning_content") {
      if (!value.is_string()) {
        return absl::InvalidArgumentError("expected \"reasoning_content\", a string");
      }
    } else if (IsOneOf(key, kLearned)) {
      ZEROTH_ASSIGN_OR_RETURN(const bool learned, ReadLearned(key, value));
      if (message.is_learned.value_or(learned) != learned) {
        return InvalidArgument("has \"", key, "\": ", learned ? "true" : "false",
                               ", but another key says the opposite");
      }
      message.is_learned = learned;
    } else if (!IsOneOf(key, kDescribesMessage)) {
      return InvalidArgument("has ", Excerpt(key),
                             ", which is not read; leave the key out if it says nothing about what "
                             "is to be learned");
    }
  }
  for (const auto& [key, value] : {std::pair<const char*, std::string*>{"role", &message.role},
                                   {"content", &message.content}}) {
    const auto found = entry.find(key);
    if (found == entry.end() || !found->is_string()) {
      return InvalidArgument("expected \"", key, "\", a string");
    }
    *value = found->get<std::string>();
  }
  if (const auto thought = entry.find("reasoning_content");
      thought != entry.end() && thought->is_string()) {
    message.thought = thought->get<std::string>();
  }
  if (message.role != "system" && message.role != "user" && message.role != "assistant") {
    return InvalidArgument("has the role ", Excerpt(message.role),
                           ", expected system, user or assistant");
  }
  return message;
}

bool HasText(const ChatMessage& message) {
  return !absl::StripAsciiWhitespace(message.content).empty() ||
         !absl::StripAsciiWhitespace(message.thought.value_or("")).empty();
}

// Removes the targets of messages marked as not learned. Invalid if only --loss_on can say that.
absl::Status LeaveOutUnlearned(absl::Span<const ChatMessage> messages, bool loss_on_all,
                               const ChatTemplate::Conversation& written,
                               std::vector<uint8_t>& marks) {
  std::vector<bool> learned;  // for each of the assistant's messages
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    if (message.role == "assistant") {
      learned.push_back(message.is_learned.value_or(true));
    } else if (message.is_learned.value_or(loss_on_all) != loss_on_all) {
      return InvalidArgument("message ", i + 1, " of the ", message.role, " says that it is ",
                             loss_on_all ? "not " : "",
                             "learned, but --loss_on=", loss_on_all ? "all" : "assistant",
                             " decides that for messages that are not the assistant's");
    }
  }
  if (!loss_on_all && std::find(learned.begin(), learned.end(), true) == learned.end()) {
    return absl::InvalidArgumentError(
        "no message of the assistant is learned, by \"weight\", \"loss\" or \"trainable\"; leave "
        "the "
        "conversation out");
  }
  if (std::find(learned.begin(), learned.end(), false) == learned.end()) return absl::OkStatus();
  // Turns alternate, so each run of the assistant's tokens is one of its messages.
  std::vector<size_t> run_of(marks.size());
  size_t runs = 0;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (written.by_assistant[i] && (i == 0 || !written.by_assistant[i - 1])) ++runs;
    run_of[i] = runs;
  }
  if (runs != learned.size()) {
    return InvalidArgument("a message of the assistant says that it is not learned, but of its ",
                           learned.size(), " messages the chat template marks ", runs,
                           " parts as the assistant's, expected one for each");
  }
  for (size_t i = 0; i < marks.size(); ++i) {
    if (written.by_assistant[i] && !learned[run_of[i] - 1]) marks[i] |= kNoTarget;
  }
  return absl::OkStatus();
}

absl::Status AddFile(const DataFile& file, const ChatTemplate& chat,
                     const ConversationOptions& options, RowPacker& rows, Cuts& cuts) {
  ZEROTH_ASSIGN_OR_RETURN(DocumentReader reader,
                          DocumentReader::Open(file, /*cuts_at_spaces=*/false));
  const auto length = static_cast<size_t>(options.seq_len) + 1;
  for (JsonRecord record;;) {
    ZEROTH_ASSIGN_OR_RETURN(const bool more, reader.NextRecord(&record));
    if (!more) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<ChatMessage> messages, ParseConversation(record));
    const absl::StatusOr<ChatTemplate::Conversation> written = chat.Render(messages);
    ZEROTH_RETURN_IF_ERROR_WITH(written.status(), record.where);
    std::vector<uint8_t> marks = MarksOf(*written, options.loss_on_all);
    ZEROTH_RETURN_IF_ERROR_WITH(LeaveOutUnlearned(messages, options.loss_on_all, *written, marks),
                                record.where);
    ++cuts.conversations;
    if (marks.size() > length) {
      if (cuts.cut + cuts.left_out == 0) cuts.first = record.where;
      cuts.longest = std::max(cuts.longest, marks.size());
      marks.resize(length);
      const bool teaches = std::any_of(marks.begin(), marks.end(),
                                       [](uint8_t mark) { return (mark & kNoTarget) == 0; });
      ++(teaches ? cuts.cut : cuts.left_out);
      if (!teaches) continue;
    }
    rows.Add(absl::MakeConstSpan(written->ids).subspan(0, marks.size()), marks);
  }
}

}  // namespace

absl::StatusOr<bool> HoldsConversations(const DataFile& file) {
  if (file.kind != DataFileKind::kJsonLines) return false;
  ZEROTH_ASSIGN_OR_RETURN(DocumentReader reader,
                          DocumentReader::Open(file, /*cuts_at_spaces=*/false));
  JsonRecord record;
  ZEROTH_ASSIGN_OR_RETURN(const bool more, reader.NextRecord(&record));
  return more && record.json.is_object() && record.json.contains("messages");
}

absl::StatusOr<std::vector<ChatMessage>> ParseConversation(const JsonRecord& record) {
  const auto wrong = [&record](const auto&... what) {
    return InvalidArgument(record.where, ": ", what...);
  };
  const nlohmann::json& json = record.json;
  const auto list = json.is_object() ? json.find("messages") : json.end();
  if (list == json.end()) {
    return wrong(
        "expected an object with \"messages\", a list, as in the file's first conversation, ",
        DescribeRecord(json));
  }
  if (!list->is_array()) return wrong("\"messages\" is ", list->type_name(), ", expected a list");
  for (const absl::string_view key : kRefusedOfRecord) {
    const auto found = json.find(std::string(key));
    if (found == json.end() || IsNothing(*found)) continue;
    if (IsOneOf(key, kLearned) && ReadLearned(key, *found).value_or(false)) continue;
    return wrong("has \"", key,
                 "\" beside the messages, which is not read; leave the key out if it says nothing "
                 "about what is to be learned");
  }
  std::vector<ChatMessage> messages;
  for (const nlohmann::json& entry : *list) {
    absl::StatusOr<ChatMessage> message = ParseMessage(entry);
    if (!message.ok()) {
      return wrong("message ", messages.size() + 1, " ", message.status().message());
    }
    messages.push_back(*std::move(message));
  }
  const auto replies = [](const ChatMessage& message) {
    return message.role == "assistant" && HasText(message);
  };
  if (std::none_of(messages.begin(), messages.end(), replies)) {
    return wrong(
        "a conversation without text of the assistant, from which nothing is learned; leave it "
        "out");
  }
  return messages;
}

absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeConversations(
    const std::vector<DataFile>& files, const ChatTemplate& chat, const Tokenizer& tokenizer,
    const ConversationOptions& options) {
  ZEROTH_CHECK(!files.empty() && options.seq_len >= 1);
  const std::string description = DescribeFiles(files);
  RowPacker rows(options.seq_len + 1, tokenizer.end_of_text());
  Cuts cuts;
  for (const DataFile& file : files) {
    ZEROTH_RETURN_IF_ERROR(AddFile(file, chat, options, rows, cuts));
  }
  if (rows.empty()) {
    return InvalidArgument(description, ": in none of ", cuts.conversations,
                           " conversations does the assistant say anything in its first ",
                           options.seq_len + 1, " tokens, all that --seq_len=", options.seq_len,
                           " holds; --seq_len=", cuts.longest - 1, " would hold the longest");
  }
  TokenSource::Facts facts;
  facts.description = description;
  facts.notes = cuts.Notes(options.seq_len);
  return std::move(rows).Build(std::move(facts));
}

}  // namespace zeroth
