// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "zeroth/data/data_files.h"
#include "zeroth/data/token_source.h"

namespace zeroth {

struct TokenCacheOptions {
  // The directory of entries: "none", "auto" for .zeroth_cache beside the first file, or a path,
  // which is created. Each entry is a directory in it.
  std::string directory = "none";
  // Everything except the files that determines the tokens: tokenizer, template, length of rows.
  std::string recipe;
  // Every id is below this.
  int32_t vocab_size = 0;
  // How long to wait for another process that makes the same entry. Encoding text that fits into
  // memory takes far less.
  absl::Duration lock_timeout = absl::Hours(2);
};

// Returns the directory that `choice` means for these files: that of "auto", or `choice` itself.
std::string CacheDirectory(const std::vector<DataFile>& files, const std::string& choice);

// Returns the tokens that `encode` makes of the files. `encode` runs once per machine; later calls
// read the tokens from disk.
//
// An entry's name is a checksum of the recipe and of each file's path, size and time of change. An
// entry holds the tokens, and the marks if there are any, as TokenShardWriter writes them, and a
// manifest.json with their number and hashes. It appears under its name complete or not at all. The
// process that makes an entry holds a lock, so that other processes and threads wait and then read
// it, at most for options.lock_timeout; DeadlineExceeded, which names the lock's file, after that.
// On a file system without locks each of them encodes, and the first entry counts. An entry that is
// incomplete, damaged or of another key is replaced. If nothing can be written, the result of
// `encode` is used from memory. notes() says which of these happened.
//
// Errors of `encode`, and of reading the files' sizes and times.
absl::StatusOr<std::shared_ptr<const TokenSource>> CachedTokens(
    const std::vector<DataFile>& files, const TokenCacheOptions& options,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<const TokenSource>>()> encode);

}  // namespace zeroth
