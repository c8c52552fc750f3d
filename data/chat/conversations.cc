// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/conversations.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/check.h"
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
  std::string first;  // where the first long one stands: file and line

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

// True if the object has a value at `key` that is not empty.
bool Says(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->empty();
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
  if (list == json.end() || !list->is_array()) {
    return wrong(
        "expected an object with \"messages\", a list, as in the file's first conversation");
  }
  // Ignoring tools would silently leave their calls out of what the model learns.
  if (Says(json, "tools")) return wrong("has \"tools\", which no template here writes");
  std::vector<ChatMessage> messages;
  bool replies = false;
  for (const nlohmann::json& entry : *list) {
    const size_t number = messages.size() + 1;
    if (!entry.is_object()) return wrong("message ", number, " is no object");
    if (Says(entry, "tool_calls")) {
      return wrong("message ", number, " has \"tool_calls\", which no template here writes");
    }
    ChatMessage message;
    for (const auto& [key, value] : {std::pair<const char*, std::string*>{"role", &message.role},
                                     {"content", &message.content}}) {
      const auto found = entry.find(key);
      if (found == entry.end() || !found->is_string()) {
        return wrong("message ", number, ": expected \"", key, "\", a string");
      }
      *value = found->get<std::string>();
    }
    if (const auto thought = entry.find("reasoning_content");
        thought != entry.end() && !thought->is_null()) {
      if (!thought->is_string()) {
        return wrong("message ", number, ": expected \"reasoning_content\", a string");
      }
      message.thought = thought->get<std::string>();
    }
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      return wrong("message ", number, " has the role \"", message.role,
                   "\", expected system, user or assistant");
    }
    replies = replies || message.role == "assistant";
    messages.push_back(std::move(message));
  }
  if (!replies) {
    return wrong(
        "a conversation without a message of the assistant, from which nothing is learned");
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
