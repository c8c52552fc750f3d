// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/conversations.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/examples.h"
#include "zeroth/data/chat/judgements.h"

namespace zeroth {
namespace {

// Number of latest rows that an example may still go into.
constexpr size_t kOpenRows = 32;

// Packs examples into rows.
class RowPacker {
 public:
  RowPacker(int64_t row_length, int32_t padding)
      : length_(static_cast<size_t>(row_length)), padding_(padding) {}

  // Adds an example of at most a row, with a mark for each id.
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

// Counts examples, and those that are longer than a row.
struct LongExamples {
  int64_t examples = 0;
  int64_t changed = 0;  // truncated or split
  int64_t left_out = 0;
  size_t longest = 0;
  std::string first;  // where the first long one is: file and line

  bool any() const { return changed + left_out > 0; }
  // Adds one of `size` tokens, whose place is `where`; `is_kept` if truncated or split.
  void Add(size_t size, const std::string& where, bool is_kept) {
    if (!any()) first = where;
    longest = std::max(longest, size);
    ++(is_kept ? changed : left_out);
  }
  std::string Text(int64_t seq_len, OnLong on_long) const {
    const std::string are =
        absl::StrCat("of ", examples, " examples, ", changed + left_out,
                     " are longer than --seq_len=", seq_len, ", the first in ", first);
    const std::string hold = absl::StrCat("--seq_len=", longest - 1, " would hold the longest");
    constexpr char kLeftOut[] = " left out, since the assistant says nothing before the cut; ";
    switch (on_long) {
      case OnLong::kTruncate:
        if (left_out == 0) return absl::StrCat(are, ": they are cut there; ", hold);
        if (changed == 0) return absl::StrCat(are, ": they are", kLeftOut, hold);
        return absl::StrCat(are, ": ", changed, " are cut there, and ", left_out, kLeftOut, hold);
      case OnLong::kSplit:
        return absl::StrCat(are, ": they are split; ", hold);
      case OnLong::kDrop:
        return absl::StrCat(are, ": they are left out; ", hold);
      case OnLong::kRefuse:
        return absl::StrCat(are, "; ", hold,
                            ", and --on_long says what else can be done with them");
    }
    return are;
  }
};

bool HasTarget(absl::Span<const uint8_t> marks) {
  return std::any_of(marks.begin(), marks.end(),
                     [](uint8_t mark) { return (mark & kNoTarget) == 0; });
}

std::vector<uint8_t> MarksOf(const ChatTemplate::Conversation& conversation, bool loss_on_all) {
  std::vector<uint8_t> marks(conversation.ids.size(), 0);
  for (size_t i = 0; i < marks.size(); ++i) {
    if (!loss_on_all && !conversation.by_assistant[i]) marks[i] |= kNoTarget;
  }
  // The token before the first one is of another conversation.
  marks[0] |= kNoTarget | kBeginsDocument;
  return marks;
}

// Removes the targets of the assistant's messages marked as not learned. For other messages
// --loss_on decides: InvalidArgument for a mark that contradicts it.
absl::Status MaskUntrainedMessages(absl::Span<const ChatMessage> messages, bool loss_on_all,
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

// Writes text as tokens: the prompt, and the completion up to its end-of-text token.
absl::StatusOr<ChatTemplate::Conversation> WriteText(const Example& example,
                                                     const Tokenizer& tokenizer) {
  ChatTemplate::Conversation written;
  const auto append = [&written](absl::Span<const int32_t> ids) {
    written.ids.insert(written.ids.end(), ids.begin(), ids.end());
  };
  ZEROTH_RETURN_IF_ERROR(
      EncodePart(tokenizer, {.text = example.prompt, .begins = true, .ends = false}, append));
  const size_t of_prompt = written.ids.size();
  // The completion begins with a new token, as it does when a model continues the prompt.
  ZEROTH_RETURN_IF_ERROR(
      EncodePart(tokenizer, {.text = example.completion, .begins = false, .ends = true}, append));
  written.by_assistant.resize(of_prompt, false);
  written.by_assistant.resize(written.ids.size(), true);
  return written;
}

// Collects packed rows, counts of long examples and the columns that were found.
struct Sink {
  RowPacker rows;
  LongExamples long_ones;
  ColumnNames columns;
  std::vector<Judgement> judgements{};  // of all files, from which rows are made at the end
};

// Adds an example that is longer than a row.
void AddLong(absl::Span<const int32_t> ids, std::vector<uint8_t> marks, const std::string& where,
             const ConversationOptions& options, Sink& sink) {
  const auto length = static_cast<size_t>(options.seq_len) + 1;
  bool is_added = false;
  const bool is_kept = options.on_long == OnLong::kTruncate || options.on_long == OnLong::kSplit;
  // Each part begins with the last token of the one before it, which is its context and no target.
  for (size_t begin = 0; is_kept && begin + 1 < marks.size(); begin += length - 1) {
    const absl::Span<uint8_t> part = absl::MakeSpan(marks).subspan(begin, length);
    part[0] |= kNoTarget | kBeginsDocument;
    if (HasTarget(part)) {
      sink.rows.Add(ids.subspan(begin, length), part);
      is_added = true;
    }
    if (options.on_long == OnLong::kTruncate) break;
  }
  sink.long_ones.Add(marks.size(), where, is_added);
}

// The tokens of an answer with their marks.
struct Written {
  std::vector<int32_t> ids;
  std::vector<uint8_t> marks;
};

absl::StatusOr<Written> Write(const Example& example, const ChatTemplate* chat,
                              const Tokenizer& tokenizer, bool loss_on_all) {
  ZEROTH_ASSIGN_OR_RETURN(ChatTemplate::Conversation conversation,
                          example.messages.empty() ? WriteText(example, tokenizer)
                                                   : chat->Render(example.messages, example.tools));
  Written written;
  written.marks = MarksOf(conversation, loss_on_all);
  if (!example.messages.empty()) {
    ZEROTH_RETURN_IF_ERROR(
        MaskUntrainedMessages(example.messages, loss_on_all, conversation, written.marks));
  }
  written.ids = std::move(conversation.ids);
  return written;
}

// Leaves only the last token as a target.
void LeaveOnlyTheLastTarget(std::vector<uint8_t>& marks) {
  for (uint8_t& mark : marks) mark |= kNoTarget;
  marks.back() &= static_cast<uint8_t>(~kNoTarget);
}

// Adds the two answers of a pair, the chosen one first.
absl::Status AddPair(Example example, const ChatTemplate* chat, const Tokenizer& tokenizer,
                     const std::string& where, const ConversationOptions& options, Sink& sink) {
  ZEROTH_ASSIGN_OR_RETURN(Written chosen, Write(example, chat, tokenizer, false));
  example.messages = std::move(example.rejected_messages);
  example.completion = std::move(example.rejected_completion);
  ZEROTH_ASSIGN_OR_RETURN(Written rejected, Write(example, chat, tokenizer, false));
  if (options.scores) {
    for (Written* answer : {&chosen, &rejected}) {
      answer->ids.push_back(tokenizer.end_of_text());
      answer->marks.push_back(kNoTarget);
    }
  }
  ++sink.long_ones.examples;
  const auto length = static_cast<size_t>(options.seq_len) + 1;
  const size_t both = chosen.ids.size() + rejected.ids.size();
  if (both > length) {
    const size_t of_chosen = std::min(
        chosen.ids.size(), std::max(length / 2, length - std::min(length, rejected.ids.size())));
    chosen.ids.resize(of_chosen);
    chosen.marks.resize(of_chosen);
    rejected.ids.resize(std::min(rejected.ids.size(), length - of_chosen));
    rejected.marks.resize(rejected.ids.size());
    // The score is that of the token before the last, which must still be one of the answer.
    const size_t unscored = options.scores ? 1 : 0;
    const auto keeps_answer = [unscored](absl::Span<const uint8_t> marks) {
      return HasTarget(marks.first(marks.size() - unscored));
    };
    const bool is_kept = options.on_long == OnLong::kTruncate && keeps_answer(chosen.marks) &&
                         keeps_answer(rejected.marks);
    sink.long_ones.Add(both, where, is_kept);
    if (!is_kept) return absl::OkStatus();
  }
  if (options.scores) {
    LeaveOnlyTheLastTarget(chosen.marks);
    LeaveOnlyTheLastTarget(rejected.marks);
  }
  if (example.is_desirable) chosen.marks[0] |= kIsDesirable;
  rejected.marks[0] |= kBeginsRejected;
  chosen.ids.insert(chosen.ids.end(), rejected.ids.begin(), rejected.ids.end());
  chosen.marks.insert(chosen.marks.end(), rejected.marks.begin(), rejected.marks.end());
  sink.rows.Add(chosen.ids, chosen.marks);
  return absl::OkStatus();
}

absl::Status AddFile(const DataFile& file, const ChatTemplate* chat, const Tokenizer& tokenizer,
                     const ConversationOptions& options, Sink& sink) {
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<RecordKind> found,
                          KindOfFirstRecord(file, options.columns, options.pairs));
  if (!found.has_value()) return absl::OkStatus();
  const RecordKind kind = *found;
  const bool may_be_judged =
      kind == RecordKind::kPromptCompletion || kind == RecordKind::kPromptMessages;
  if (options.pairs && !IsPair(kind) && !(options.judgements && may_be_judged)) {
    const absl::Status error =
        ExpectedPairsError(file.path, absl::StrCat(NameOf(kind), " records"), options.judgements);
    return !may_be_judged ? error
                          : InvalidArgument(error.message(),
                                            "; if they have a \"label\", they are judged answers, "
                                            "which the trainer's --objective=kto learns from");
  }
  if (IsPair(kind) && !options.pairs) {
    return InvalidArgument(file.path,
                           ": holds pairs of a chosen and a rejected answer, which --objective=dpo "
                           "and others learn from; --data_columns=completion=chosen reads the "
                           "chosen answers as completions");
  }
  if (NeedsTemplate(kind) && chat == nullptr) {
    return InvalidArgument(file.path, ": holds ", NameOf(kind),
                           " records, which need a chat template, and there is none");
  }
  ZEROTH_ASSIGN_OR_RETURN(DocumentReader reader, DocumentReader::OpenRecords(file, &sink.columns));
  for (JsonRecord record;;) {
    ZEROTH_ASSIGN_OR_RETURN(const bool more, reader.NextRecord(&record));
    if (!more) break;
    ZEROTH_ASSIGN_OR_RETURN(
        Example example,
        ParseExample(kind, record, {chat != nullptr, options.loss_on_all, options.judgements}));
    if (options.judgements) {
      AddJudgements(std::move(example), kind, record.where, sink.judgements);
      continue;
    }
    if (options.pairs) {
      ZEROTH_RETURN_IF_ERROR_WITH(
          AddPair(std::move(example), chat, tokenizer, record.where, options, sink), record.where);
      continue;
    }
    absl::StatusOr<Written> written = Write(example, chat, tokenizer, options.loss_on_all);
    ZEROTH_RETURN_IF_ERROR_WITH(written.status(), record.where);
    ++sink.long_ones.examples;
    if (static_cast<int64_t>(written->marks.size()) > options.seq_len + 1) {
      AddLong(written->ids, std::move(written->marks), record.where, options, sink);
    } else {
      sink.rows.Add(written->ids, written->marks);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenSource>> EncodeConversations(
    const std::vector<DataFile>& files, const ChatTemplate* chat, const Tokenizer& tokenizer,
    const ConversationOptions& options) {
  ZEROTH_CHECK(!files.empty() && options.seq_len >= 1);
  const std::string description = DescribeFiles(files);
  Sink sink = {RowPacker(options.seq_len + 1, tokenizer.end_of_text()), {}, options.columns};
  for (const DataFile& file : files) {
    ZEROTH_RETURN_IF_ERROR(AddFile(file, chat, tokenizer, options, sink));
  }
  ZEROTH_RETURN_IF_ERROR(sink.columns.CheckFound(description));
  for (size_t i = 0; i < sink.judgements.size(); ++i) {
    ZEROTH_ASSIGN_OR_RETURN(Judgement pair, WithMismatchedAnswer(sink.judgements, i));
    ZEROTH_RETURN_IF_ERROR_WITH(
        AddPair(std::move(pair.example), chat, tokenizer, sink.judgements[i].where, options, sink),
        pair.where);
  }
  const std::string text =
      sink.long_ones.any() ? sink.long_ones.Text(options.seq_len, options.on_long) : "";
  if (sink.long_ones.any() && options.on_long == OnLong::kRefuse) {
    return InvalidArgument(description, ": ", text);
  }
  if (sink.rows.empty()) {
    return InvalidArgument(description, ": nothing is left to learn",
                           text.empty() ? ", since there are no examples" : ": ", text);
  }
  TokenSource::Facts facts;
  facts.description = description;
  if (!text.empty()) facts.notes = {absl::StrCat("data      ", text)};
  return std::move(sink.rows).Build(std::move(facts));
}

absl::StatusOr<ExampleCounts> CountExamples(const TokenSource& rows) {
  ExampleCounts counts;
  std::vector<uint8_t> marks(static_cast<size_t>(rows.row_length()));
  std::vector<int32_t> ids(marks.size());
  for (int64_t begin = 0; begin < rows.size(); begin += rows.row_length()) {
    ZEROTH_RETURN_IF_ERROR(rows.ReadMarks(begin, absl::MakeSpan(marks)));
    ZEROTH_RETURN_IF_ERROR(rows.Read(begin, absl::MakeSpan(ids)));
    counts.largest = std::max(counts.largest, *std::max_element(ids.begin(), ids.end()));
    for (size_t at = 0; at < marks.size();) {
      const auto from = marks.begin() + static_cast<std::ptrdiff_t>(at);
      const auto to = std::find_if(from + 1, marks.end(),
                                   [](uint8_t mark) { return (mark & kBeginsDocument) != 0; });
      const auto learned =
          std::count_if(from, to, [](uint8_t mark) { return (mark & kNoTarget) == 0; });
      at += static_cast<size_t>(to - from);
      // Every example has a target, and padding has none.
      if (learned == 0) continue;
      if ((*from & kBeginsRejected) == 0) ++counts.examples;
      if ((*from & kIsDesirable) != 0) ++counts.desirable;
      counts.tokens += to - from;
      counts.learned += learned;
    }
  }
  return counts;
}

}  // namespace zeroth
