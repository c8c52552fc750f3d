// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

struct TokenizeOptions {
  std::string tokenizer;  // a path for OpenTokenizer, or "byte"
  // Text and JSON lines, also compressed, and parquet, named as in the trainer's --data.
  std::string in;
  // .bin or .npy: token shards, each document with the tokenizer's template and an end-of-text
  // token. .jsonl: {"ids": [...], "text": decoded} for each document, without an end-of-text token.
  std::string out;
  bool parse_special = false;
  // Puts the template's tokens around each document; by default only in token shards.
  std::optional<bool> add_special_tokens;
  // Replaces what an earlier call with this `out` wrote.
  bool overwrite = false;
  int threads = 0;  // 0: one for each core
  int64_t shard_tokens = int64_t{1} << 30;
  // Text in memory that is encoded at a time, per thread.
  size_t part_bytes = size_t{4} << 20;
};

struct TokenizeCounts {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;  // of the input, encoded so far
  int64_t all_bytes = 0;
  int64_t resumed_bytes = 0;          // encoded by an earlier call
  std::vector<std::string> left_out;  // as FindDataFiles says
};

// Encodes the documents of the input, in their order, on several threads. Memory depends on the
// number of threads and the longest line, not on the size of the input. It also depends on the
// longest document if the tokenizer cannot divide text at spaces, or if JSON lines are written.
// After every batch the position is written to OUT.progress, from which a call with the same
// options continues after an interruption; the file is removed at the end. `report` is called after
// each batch. An error that it returns ends the call, which can be resumed. AlreadyExists if `out`,
// or a shard of that name, exists, unless the call continues or options.overwrite is set; files
// that this function does not write are never replaced.
absl::StatusOr<TokenizeCounts> TokenizeFiles(
    const TokenizeOptions& options, absl::FunctionRef<absl::Status(const TokenizeCounts&)> report);

}  // namespace zeroth
