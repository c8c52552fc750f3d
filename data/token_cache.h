// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKEN_CACHE_H_
#define ZEROTH_DATA_TOKEN_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "zeroth/data/data_files.h"
#include "zeroth/data/token_source.h"

namespace zeroth {

struct TokenCacheOptions {
  // Where entries lie, each a directory of its own: "none", "auto" for .zeroth_cache beside the
  // first file, or a path, which is created.
  std::string directory = "none";
  // All that decides the tokens beside the files: tokenizer, template, length of rows.
  std::string recipe;
  // Ids are below it.
  int32_t vocab_size = 0;
};

// What `encode` makes of the files: called once for a machine, and read from disk from then on.
//
// An entry's name is a checksum of the recipe and of each file's path, size and time of change. It
// holds the tokens, and the marks if there are any, as TokenShardWriter writes them, and a
// manifest.json with their number and HashTokens of both. It appears under its name complete or not
// at all. Whoever makes one holds a lock, so that other processes and threads wait and read it; on
// a file system without locks each encodes, and the first entry counts. An entry that is
// incomplete, damaged or of another key is made anew. Where nothing can be written, what `encode`
// returned is used from memory. notes() says which of these it was.
//
// Errors of `encode`, and of files that cannot be looked at.
absl::StatusOr<std::shared_ptr<const TokenSource>> CachedTokens(
    const std::vector<DataFile>& files, const TokenCacheOptions& options,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<const TokenSource>>()> encode);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKEN_CACHE_H_
