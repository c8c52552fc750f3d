// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Records of JSON, and which of the usual kinds they are.

#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace zeroth {

// A line of a file of JSON lines, or an element of a JSON array.
struct JsonRecord {
  nlohmann::ordered_json json;  // in the order of the file, in which templates write tools
  std::string where;            // file, and line or number, for messages
};

// The kinds, by the keys of a record: "text"; "messages"; "conversations" (ShareGPT); "instruction"
// and "output" (Alpaca); "prompt" and "completion", both of them text or both lists of messages;
// "chosen" and "rejected", likewise, with a "prompt" or a common beginning (preference pairs).
enum class RecordKind {
  kText,
  kMessages,
  kShareGpt,
  kAlpaca,
  kPromptCompletion,
  kPromptMessages,
  kPair,
  kPairMessages
};

constexpr bool IsPair(RecordKind kind) {
  return kind == RecordKind::kPair || kind == RecordKind::kPairMessages;
}

// The kind's name for messages and for the header of a run.
absl::string_view NameOf(RecordKind kind);

// Decides by the record's keys; see KindOfFirstRecord (documents.h) for a file. If a record has the
// keys of several kinds, a pair counts first with `prefers_pairs`, and otherwise after all other
// kinds but text, which always counts last. InvalidArgument quotes the beginning of a record of no
// known kind, and says what was expected.
absl::StatusOr<RecordKind> KindOfRecord(const JsonRecord& record, bool prefers_pairs = false);

// InvalidArgument, with the beginning of the record, if it is not of the kind of its file's first.
absl::Status CheckKind(const JsonRecord& record, RecordKind kind);

// Returns InvalidArgument: `path` holds `what` where preference pairs, or with `judgements` judged
// answers, were expected.
absl::Status ExpectedPairsError(absl::string_view path, absl::string_view what,
                                bool judgements = false);

// Renames keys of records: --data_columns=prompt=question,completion=answer reads "question" as
// "prompt". Notes which columns were found. Not thread-safe.
class ColumnNames {
 public:
  ColumnNames() = default;
  // Empty for empty text. InvalidArgument for other text than NAME=COLUMN, separated by commas, for
  // a name that no kind of record reads, and for a name or column that is given twice.
  static absl::StatusOr<ColumnNames> Parse(absl::string_view text);

  // Renames the columns of a record. Overwrites a key that has the new name.
  void Apply(nlohmann::ordered_json& record);
  // InvalidArgument names a column that no record of Apply had, and the columns of the first of
  // these records; `where` names the files, or the only record.
  absl::Status CheckFound(absl::string_view where) const;

 private:
  std::map<std::string, std::string> column_of_;  // by name
  std::set<std::string> found_;                   // columns
  std::vector<std::string> first_;                // columns of the first record
  bool has_first_ = false;
};

}  // namespace zeroth
