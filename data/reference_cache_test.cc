// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/reference_cache.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/token_source.h"

namespace zeroth {
namespace {

std::string ChecksumOf(std::vector<int32_t> ids, std::vector<uint8_t> marks) {
  TokenSource::Facts facts;
  facts.row_length = 2;
  const auto data = Mixture::Create(
      {{std::make_shared<const TokensInMemory<int32_t>>(std::move(ids), facts, std::move(marks))}});
  EXPECT_TRUE(data.ok()) << data.status();
  return ChecksumOfRows(**data).value_or("");
}

TEST(ReferenceCacheTest, TheChecksumOfRowsCoversTokensAndMarks) {
  const std::string checksum = ChecksumOf({1, 2, 3, 4}, {0, 1, 2, 4});
  EXPECT_EQ(ChecksumOf({1, 2, 3, 4}, {0, 1, 2, 4}), checksum);
  EXPECT_NE(ChecksumOf({1, 2, 3, 5}, {0, 1, 2, 4}), checksum);
  EXPECT_NE(ChecksumOf({1, 2, 3, 4}, {0, 1, 0, 4}), checksum);
}

TEST(ReferenceCacheTest, AFileHasTheLossesOfItsKeyOrNone) {
  TemporaryDirectory dir;
  const ReferenceCacheKey key = {"a model", "some data", {2, 1}, 3};
  const std::string path = ReferenceCachePath(dir.File("new/cache"), key);
  EXPECT_EQ(ReadReferenceCache(path, key).status().code(), absl::StatusCode::kNotFound);

  const float none = std::numeric_limits<float>::quiet_NaN();
  const ReferenceLosses losses = {{0.5f, 0.0f, 1e-30f, none, none, none}, {3.0f, 4.0f, 5.0f}};
  ASSERT_EQ(WriteReferenceCache(path, key, losses), absl::OkStatus());
  const auto read = ReadReferenceCache(path, key);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 2u);
  ASSERT_EQ((*read)[0].size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*read)[0][i], losses[0][i]);
    EXPECT_TRUE(std::isnan((*read)[0][3 + i]));
  }
  EXPECT_EQ((*read)[1], losses[1]);

  for (const ReferenceCacheKey& other : {ReferenceCacheKey{"another", "some data", {2, 1}, 3},
                                         ReferenceCacheKey{"a model", "other data", {2, 1}, 3},
                                         ReferenceCacheKey{"a model", "some data", {1, 2}, 3},
                                         ReferenceCacheKey{"a model", "some data", {2, 1}, 4}}) {
    EXPECT_NE(ReferenceCachePath(dir.File("new/cache"), other), path);
    EXPECT_EQ(ReadReferenceCache(path, other).status().code(), absl::StatusCode::kDataLoss);
  }

  // No damage of a bit or of the end goes unnoticed.
  const std::string content = *ReadFile(path);
  for (size_t i = 0; i < content.size(); ++i) {
    std::string damaged = content;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    ASSERT_EQ(WriteFileDurably(path, damaged), absl::OkStatus());
    const auto changed = ReadReferenceCache(path, key);
    EXPECT_EQ(changed.status().code(), absl::StatusCode::kDataLoss) << i;
  }
  // Deeply nested JSON is refused, too.
  ASSERT_EQ(WriteFileDurably(path, std::string(content.size(), '[')), absl::OkStatus());
  EXPECT_EQ(ReadReferenceCache(path, key).status().code(), absl::StatusCode::kDataLoss);
  for (const size_t size : {content.size() + 1, content.size() - 1, size_t{10}, size_t{0}}) {
    std::string resized = content;
    resized.resize(size);
    ASSERT_EQ(WriteFileDurably(path, resized), absl::OkStatus());
    EXPECT_EQ(ReadReferenceCache(path, key).status().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace zeroth
