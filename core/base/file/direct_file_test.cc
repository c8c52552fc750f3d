// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/direct_file.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kAlignment = DirectFile::kAlignment;

TEST(DirectFileTest, HoldsWhatWasWritten) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const bool direct : {true, false}) {
    for (const int64_t size : {int64_t{0}, int64_t{1}, kAlignment - 1, kAlignment, kAlignment + 1,
                               7 * kAlignment + 123, 300 * kAlignment}) {
      const TemporaryDirectory dir;
      auto buffer = PageBuffer::Allocate(static_cast<size_t>(size));
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      for (int64_t i = 0; i < size; ++i) buffer->data()[i] = static_cast<uint8_t>(random());
      auto file = DirectFile::Create(dir.File("name"), size, direct);
      ASSERT_TRUE(file.ok()) << file.status();
      for (int64_t begin = 0; begin < size;) {
        const int64_t most = (1 + static_cast<int64_t>(random() % 50)) * kAlignment;
        const int64_t count = std::min(most, size - begin);
        ASSERT_EQ((*file)->Write(begin, {buffer->data() + begin, static_cast<size_t>(count)}),
                  absl::OkStatus());
        begin += count;
      }
      const std::vector<std::string> before = dir.List();
      ASSERT_EQ(before.size(), 1u);
      EXPECT_NE(before[0], "name");
      ASSERT_EQ((*file)->Finish(), absl::OkStatus());
      EXPECT_THAT(dir.List(), ElementsAre("name"));
      const std::string expected(reinterpret_cast<const char*>(buffer->data()),
                                 static_cast<size_t>(size));
      EXPECT_TRUE(ReadTestFile(dir.File("name")) == expected) << size;
    }
  }
}

TEST(DirectFileTest, IsNotThereUnlessFinished) {
  const TemporaryDirectory dir;
  dir.Write("name", "of before");
  ASSERT_TRUE(DirectFile::Create(dir.File("name"), 10'000).ok());
  EXPECT_THAT(dir.List(), ElementsAre("name"));
  EXPECT_EQ(ReadTestFile(dir.File("name")), "of before");
}

TEST(DirectFileTest, NoRoomIsKnownAtOnce) {
  const TemporaryDirectory dir;
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = DirectFile::Create(dir.File("name"), 2 << 20).status();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("reserve 2097152 bytes for"));
  EXPECT_THAT(dir.List(), IsEmpty());
  EXPECT_EQ(DirectFile::Create(dir.File("no/such"), 1).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(PageBufferTest, IsAlignedAndMoves) {
  auto buffer = PageBuffer::Allocate(5'000'001);
  ASSERT_TRUE(buffer.ok());
  EXPECT_GE(buffer->size(), 5'000'001u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % kAlignment, 0u);
  buffer->data()[5'000'000] = 7;
  PageBuffer other = *std::move(buffer);
  EXPECT_EQ(other.data()[5'000'000], 7);
  other = PageBuffer();
  EXPECT_EQ(other.size(), 0u);
  for (const size_t size : {SIZE_MAX, SIZE_MAX / 2}) {
    EXPECT_EQ(PageBuffer::Allocate(size).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace zeroth
