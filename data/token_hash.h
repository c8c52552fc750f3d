// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_TOKEN_HASH_H_
#define ZEROTH_DATA_TOKEN_HASH_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "zeroth/data/token_source.h"

namespace zeroth {

// Up to so many tokens, every one is hashed; of more, so many in 4096 pieces evenly spread from the
// first token to the last, so that the cost has an end: about half a second, and the reading.
inline constexpr int64_t kHashedTokens = int64_t{1} << 28;

// XXH3 of the ids, their number and the length of their rows: the same for the same stream whatever
// files, types and tokenizers it comes from; never 0. Two sources of at most `most` tokens that
// differ in one have other hashes; larger ones do if they differ in a piece that is hashed.
// Errors of the source.
absl::StatusOr<uint64_t> HashTokens(const TokenSource& source, int64_t most = kHashedTokens);

}  // namespace zeroth

#endif  // ZEROTH_DATA_TOKEN_HASH_H_
