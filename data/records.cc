// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/records.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr char kExpected[] =
    "expected one of {\"text\": \"...\"}, {\"messages\": [{\"role\": \"user\", \"content\": "
    "\"...\"}, ...]}, {\"conversations\": [{\"from\": \"human\", \"value\": \"...\"}, ...]} "
    "(ShareGPT), {\"instruction\": \"...\", \"input\": \"...\", \"output\": \"...\"} (Alpaca), "
    "{\"prompt\": \"...\", \"completion\": \"...\"} and "
    "{\"prompt\": \"...\", \"chosen\": \"...\", \"rejected\": \"...\"}";

// The names that records of some kind have.
constexpr absl::string_view kNames[] = {"text",   "messages", "conversations", "instruction",
                                        "input",  "output",   "prompt",        "completion",
                                        "chosen", "rejected", "label",         "tools"};

}  // namespace

absl::string_view NameOf(RecordKind kind) {
  switch (kind) {
    case RecordKind::kText:
      return "text";
    case RecordKind::kMessages:
      return "messages";
    case RecordKind::kShareGpt:
      return "ShareGPT";
    case RecordKind::kAlpaca:
      return "Alpaca";
    case RecordKind::kPromptCompletion:
      return "prompt/completion";
    case RecordKind::kPromptMessages:
      return "prompt/completion of messages";
    case RecordKind::kPair:
      return "preference";
    case RecordKind::kPairMessages:
      return "preference of messages";
  }
  return "";
}

absl::StatusOr<RecordKind> KindOfRecord(const JsonRecord& record, bool prefers_pairs) {
  const nlohmann::ordered_json& json = record.json;
  if (json.is_object()) {
    const bool is_pair = json.contains("chosen") && json.contains("rejected");
    const RecordKind pair = is_pair && (json["chosen"].is_array() || json["rejected"].is_array())
                                ? RecordKind::kPairMessages
                                : RecordKind::kPair;
    if (is_pair && prefers_pairs) return pair;
    if (json.contains("messages")) return RecordKind::kMessages;
    if (json.contains("conversations")) return RecordKind::kShareGpt;
    if (json.contains("instruction") && json.contains("output")) return RecordKind::kAlpaca;
    if (json.contains("prompt") && json.contains("completion")) {
      return json["prompt"].is_array() || json["completion"].is_array()
                 ? RecordKind::kPromptMessages
                 : RecordKind::kPromptCompletion;
    }
    if (is_pair) return pair;
    if (json.contains("text")) return RecordKind::kText;
  }
  return InvalidArgument(record.where, ": ", kExpected, ", found ", QuoteJson(json),
                         json.is_object() ? "; --data_columns=NAME=COLUMN reads a key under one of "
                                            "these names"
                                          : "");
}

absl::Status CheckKind(const JsonRecord& record, RecordKind kind) {
  ZEROTH_ASSIGN_OR_RETURN(const RecordKind found, KindOfRecord(record, IsPair(kind)));
  if (found == kind) return absl::OkStatus();
  return InvalidArgument(
      record.where, ": is a record of the kind ", NameOf(found), ", expected ", NameOf(kind),
      kind == RecordKind::kText ? "; the trainer's --data reads each kind from separate files: "
                                : ", the kind of the file's first record: ",
      QuoteJson(record.json));
}

absl::Status ExpectedPairsError(absl::string_view path, absl::string_view what, bool judgements) {
  if (judgements) {
    return InvalidArgument(path, ": holds ", what,
                           ", but --objective=kto learns from judged answers, expected records "
                           "{\"prompt\": \"...\", \"completion\": \"...\", \"label\": true}, or "
                           "pairs with \"chosen\" and \"rejected\"");
  }
  return InvalidArgument(path, ": holds ", what,
                         ", but the objective learns from pairs, expected records {\"prompt\": "
                         "\"...\", \"chosen\": \"...\", \"rejected\": \"...\"}");
}

absl::StatusOr<ColumnNames> ColumnNames::Parse(absl::string_view text) {
  ColumnNames names;
  if (text.empty()) return names;
  std::set<std::string> columns;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
    const auto& [name, column] = parts;
    if (name.empty() || column.empty()) {
      return InvalidArgument("--data_columns: ", Excerpt(item),
                             ", expected NAME=COLUMN, as in prompt=question");
    }
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
      return InvalidArgument("--data_columns: no record has the name ", Excerpt(name),
                             ", expected one of ", absl::StrJoin(kNames, ", "));
    }
    if (!names.column_of_.emplace(name, column).second || !columns.insert(column).second) {
      return InvalidArgument("--data_columns: ", Excerpt(item),
                             " repeats a name or a column, expected each once");
    }
  }
  return names;
}

void ColumnNames::Apply(nlohmann::ordered_json& record) {
  if (!record.is_object() || column_of_.empty()) return;
  if (!has_first_) {
    for (const auto& [key, value] : record.items()) first_.push_back(key);
    has_first_ = true;
  }
  // All are taken out before one is put in, so that two may be exchanged.
  std::vector<std::pair<std::string, nlohmann::ordered_json>> taken;
  for (const auto& [name, column] : column_of_) {
    const auto found = record.find(column);
    if (found == record.end()) continue;
    taken.emplace_back(name, std::move(*found));
    record.erase(found);
    found_.insert(column);
  }
  for (auto& [name, value] : taken) record[name] = std::move(value);
}

absl::Status ColumnNames::CheckFound(absl::string_view where) const {
  constexpr size_t kMostShown = 20;
  for (const auto& [name, column] : column_of_) {
    if (found_.contains(column)) continue;
    const size_t shown = std::min(kMostShown, first_.size());
    std::vector<std::string> columns;
    for (size_t i = 0; i < shown; ++i) columns.push_back(Excerpt(first_[i]));
    if (shown < first_.size()) columns.push_back(absl::StrCat(first_.size() - shown, " more"));
    return InvalidArgument(where, ": --data_columns=", name, "=", column, ": no record has ",
                           Excerpt(column), "; the first has ",
                           columns.empty() ? "no columns" : absl::StrJoin(columns, ", "));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
