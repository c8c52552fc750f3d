// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/token_file.h"

namespace zeroth {
namespace {

std::vector<int32_t> Contents(const std::string& path, int32_t vocab_size) {
  const auto source =
      path.back() == 'y' ? OpenNpyFile(path, vocab_size) : OpenLlmcFile(path, vocab_size);
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return {};
  std::vector<int32_t> ids(static_cast<size_t>((*source)->size()));
  EXPECT_TRUE((*source)->Read(0, absl::MakeSpan(ids)).ok());
  return ids;
}

std::vector<int32_t> Numbers(int32_t first, size_t count) {
  std::vector<int32_t> ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// Our readers of each format read back one file of ids around the largest of a type.
TEST(TokenShardsTest, OneFileHasItsOwnName) {
  const TemporaryDirectory dir;
  for (const int32_t vocab_size : {65'536, 65'537}) {
    for (const std::string name : {"a.bin", "a.npy"}) {
      const std::string path = dir.File(absl::StrCat(vocab_size, name));
      auto writer = TokenShardWriter::Create({path, vocab_size});
      ASSERT_TRUE(writer.ok()) << writer.status();
      const std::vector<int32_t> ids = Numbers(vocab_size - 5, 5);
      ASSERT_TRUE(writer->Append(ids).ok());
      ASSERT_TRUE(writer->Append({}).ok());
      ASSERT_TRUE(writer->Append({0, 7}).ok());
      const absl::Status finished = writer->Finish();
      ASSERT_TRUE(finished.ok()) << finished;
      std::vector<int32_t> expected = ids;
      expected.insert(expected.end(), {0, 7});
      EXPECT_EQ(Contents(path, vocab_size), expected);
    }
  }
  size_t files = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(dir.path())) ++files;
  EXPECT_EQ(files, 4u);
}

TEST(TokenShardsTest, ShardsAreFullAndResumedToTheToken) {
  const std::vector<int32_t> ids = Numbers(0, 25);
  for (size_t kept = 0; kept <= 20; ++kept) {
    const TemporaryDirectory dir;
    const TokenShardWriter::Options options = {dir.File("s.bin"), 100, 10};
    TokenShardWriter::Position position;
    {
      auto writer = TokenShardWriter::Create(options);
      ASSERT_TRUE(writer.ok());
      ASSERT_TRUE(writer->Append(absl::MakeConstSpan(ids).first(kept)).ok());
      ASSERT_TRUE(writer->Flush().ok());
      position = writer->position();
      EXPECT_EQ(position.shard * 10 + position.tokens_in_shard, static_cast<int64_t>(kept));
      // Written, but not recorded.
      ASSERT_TRUE(writer->Append({99, 98}).ok());
      ASSERT_TRUE(writer->Flush().ok());
    }
    auto writer = TokenShardWriter::Create(options);
    ASSERT_TRUE(writer.ok());
    const absl::Status resumed = writer->Resume(position);
    ASSERT_TRUE(resumed.ok()) << resumed;
    ASSERT_TRUE(writer->Append(absl::MakeConstSpan(ids).subspan(kept)).ok());
    ASSERT_TRUE(writer->Finish().ok());
    EXPECT_EQ(Contents(dir.File("s-00000.bin"), 100), Numbers(0, 10));
    EXPECT_EQ(Contents(dir.File("s-00001.bin"), 100), Numbers(10, 10));
    EXPECT_EQ(Contents(dir.File("s-00002.bin"), 100), Numbers(20, 5));
    EXPECT_FALSE(std::filesystem::exists(dir.File("s-00002.bin.partial")));
  }
}

// A process may end after it has finished, and before it forgets its position.
TEST(TokenShardsTest, WhatIsFinishedIsResumed) {
  for (const size_t tokens : {7u, 10u, 17u, 20u}) {
    const TemporaryDirectory dir;
    const TokenShardWriter::Options options = {dir.File("s.bin"), 100, 10};
    TokenShardWriter::Position position;
    for (int run = 0; run < 3; ++run) {
      auto writer = TokenShardWriter::Create(options);
      ASSERT_TRUE(writer.ok());
      if (run == 0) {
        ASSERT_TRUE(writer->Append(Numbers(0, tokens)).ok());
        ASSERT_TRUE(writer->Flush().ok());
        position = writer->position();
      } else {
        const absl::Status resumed = writer->Resume(position);
        ASSERT_TRUE(resumed.ok()) << resumed;
      }
      const absl::Status finished = writer->Finish();
      ASSERT_TRUE(finished.ok()) << finished;
      EXPECT_EQ(dir.List().size(), (tokens + 9) / 10);
      const std::string first = tokens <= 10 ? "s.bin" : "s-00000.bin";
      EXPECT_EQ(Contents(dir.File(first), 100), Numbers(0, std::min<size_t>(tokens, 10)));
    }
  }
}

// A pattern that matches the shards of a path matches those of its last writer alone.
TEST(TokenShardsTest, AnEarlierWritersShardsGo) {
  const TemporaryDirectory dir;
  for (const size_t tokens : {35u, 15u, 5u, 25u}) {
    auto writer = TokenShardWriter::Create({dir.File("s.bin"), 100, 10});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Append(Numbers(0, tokens)).ok());
    ASSERT_TRUE(writer->Finish().ok());
    EXPECT_EQ(dir.List().size(), (tokens + 9) / 10) << tokens;
    EXPECT_EQ(std::filesystem::exists(dir.File("s.bin")), tokens == 5);
  }
}

TEST(TokenShardsTest, BadRequestsAreRefused) {
  const TemporaryDirectory dir;
  EXPECT_EQ(TokenShardWriter::Create({dir.File("a.txt"), 10}).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (const int64_t tokens : {int64_t{0}, int64_t{1} << 31}) {
    EXPECT_EQ(TokenShardWriter::Create({dir.File("a.bin"), 10, tokens}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  auto writer = TokenShardWriter::Create({dir.File("a.bin"), 10});
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->Finish().code(), absl::StatusCode::kFailedPrecondition);
  dir.Write("b-00000.bin.partial", "short");
  auto cut = TokenShardWriter::Create({dir.File("b.bin"), 10});
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->Resume({0, 5}).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace zeroth
