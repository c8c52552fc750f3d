// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/data/token_source.h"

namespace zeroth {
namespace {

TokensInMemory<int32_t> Tokens(std::vector<int32_t> ids, int64_t row_length = 0) {
  TokenSource::Facts facts;
  facts.row_length = row_length;
  return TokensInMemory<int32_t>(std::move(ids), facts);
}

std::vector<int32_t> Ids(int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 251);
  return ids;
}

TEST(TokenHashTest, EveryTokenCounts) {
  const std::vector<int32_t> ids = Ids(100'000);
  std::set<uint64_t> hashes = {*HashTokens(Tokens(ids)), *HashTokens(Tokens(ids, 100)),
                               *HashTokens(Tokens(Ids(99'999)))};
  EXPECT_EQ(hashes.size(), 3u);
  EXPECT_EQ(*HashTokens(Tokens(ids)), *HashTokens(Tokens(Ids(100'000))));
  for (const size_t place : {size_t{0}, size_t{65'535}, size_t{65'536}, ids.size() - 1}) {
    std::vector<int32_t> other = ids;
    other[place] += 1;
    EXPECT_TRUE(hashes.insert(*HashTokens(Tokens(other))).second) << place;
  }
}

TEST(TokenHashTest, OfManyThePiecesCount) {
  const std::vector<int32_t> ids = Ids(100'000);
  const uint64_t hash = *HashTokens(Tokens(ids), /*most=*/10'000);
  std::vector<int32_t> other = ids;
  for (const size_t place : {size_t{0}, ids.size() - 1}) {
    other = ids;
    other[place] += 1;
    EXPECT_NE(*HashTokens(Tokens(other), 10'000), hash) << place;
  }
  // Another text throughout, of the same length.
  other = ids;
  for (int32_t& id : other) id = (id + 1) % 251;
  EXPECT_NE(*HashTokens(Tokens(other), 10'000), hash);
  EXPECT_EQ(*HashTokens(Tokens(ids), 10'000), hash);
}

}  // namespace
}  // namespace zeroth
