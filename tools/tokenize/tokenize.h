// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TOOLS_TOKENIZE_TOKENIZE_H_
#define ZEROTH_TOOLS_TOKENIZE_TOKENIZE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace zeroth {

struct TokenizeOptions {
  std::string tokenizer;  // as OpenTokenizer's path, or "byte"
  // Text, JSON lines and parquet, as --data of the trainer says.
  std::string in;
  // .bin or .npy: token shards, each document with the tokenizer's template and an end-of-text
  // token. .jsonl: {"ids": [...], "text": decoded} for each document, without an end-of-text token.
  std::string out;
  bool parse_special = false;
  // Whether the template's tokens are put around a document; by default in token shards only.
  std::optional<bool> add_special_tokens;
  int threads = 0;  // 0: one for each core
  int64_t shard_tokens = int64_t{1} << 30;
  // Text that is held and encoded at a time, for each thread.
  size_t part_bytes = size_t{4} << 20;
};

struct TokenizeCounts {
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t bytes = 0;  // of the input files, so far
  int64_t all_bytes = 0;
};

// Encodes the documents of the input, in their order, on several threads. Memory depends on the
// number of threads, the longest line and, where the tokenizer cannot be cut at spaces or JSON
// lines are written, the longest document, and not on the input's size. After every batch, what has
// been reached is written to OUT.progress, from which a call with the same options goes on after an
// interruption; at the end that file is removed. `report` is called after each batch; an error that
// it returns ends the call, which can be resumed.
absl::StatusOr<TokenizeCounts> TokenizeFiles(
    const TokenizeOptions& options, absl::FunctionRef<absl::Status(const TokenizeCounts&)> report);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_TOKENIZE_TOKENIZE_H_
