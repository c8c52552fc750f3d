// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Files that keep the losses of a reference model beside the data, for later runs.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/data/loader.h"
#include "zeroth/data/mixture.h"

namespace zeroth {

// Identifies losses of a reference.
struct ReferenceCacheKey {
  std::string recipe;         // everything beside the data that determines the losses: the weights
                              // and how they are computed
  std::string data;           // ChecksumOfRows
  std::vector<int64_t> rows;  // of each source
  int64_t seq_len = 0;
};

// Returns a checksum of the tokens and the marks of all sources. It thus depends on the tokenizer
// and the template too. If a source has more than kHashedTokens tokens, the checksum covers all of
// its marks, but only the tokens that HashTokens reads. Errors of the sources.
absl::StatusOr<std::string> ChecksumOfRows(const Mixture& data);

// Returns the path of the file for `key` in `directory`.
std::string ReferenceCachePath(const std::string& directory, const ReferenceCacheKey& key);

// Reads the losses for `key` from the file at `path`. The result has all rows; those that no run
// has needed so far are NaN. NotFound if there is no file; DataLoss if it is damaged or belongs to
// another key.
absl::StatusOr<ReferenceLosses> ReadReferenceCache(const std::string& path,
                                                   const ReferenceCacheKey& key);
// Creates or replaces the file, atomically. If several runs write it at once, one of them wins, and
// the rows that it lacks are computed again when they are needed. Errors of the file system.
absl::Status WriteReferenceCache(const std::string& path, const ReferenceCacheKey& key,
                                 const ReferenceLosses& losses);

}  // namespace zeroth
