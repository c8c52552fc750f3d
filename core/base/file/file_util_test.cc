// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/file_util.h"

#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

TEST(FileUtilTest, WritesAndReads) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("f", "something longer");
  ASSERT_TRUE(WriteFileDurably(path, "short").ok());
  EXPECT_EQ(ReadTestFile(path), "short");
  EXPECT_EQ(*ReadFile(path, 5), "short");
  EXPECT_THAT(std::string(ReadFile(path, 4).status().message()),
              HasSubstr("5 bytes, expected at most 4"));
  EXPECT_TRUE(SyncDirectory(dir.path()).ok());
}

TEST(FileUtilTest, ErrorsNameThePath) {
  const TemporaryDirectory dir;
  const absl::Status status = WriteFileDurably(dir.File("no/such/f"), "x");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir.File("no/such/f")));
  EXPECT_EQ(SyncDirectory(dir.File("absent")).code(), absl::StatusCode::kNotFound);
}

TEST(FileUtilTest, TellsFilesFromOthers) {
  const TemporaryDirectory dir;
  EXPECT_TRUE(IsFile(dir.Write("file", "text")));
  EXPECT_FALSE(IsFile(dir.path()));
  EXPECT_FALSE(IsFile(dir.File("absent")));
}

TEST(FileUtilTest, WriteAtWritesWhereAsked) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("f", "0123456789");
  const int fd = open(path.c_str(), O_WRONLY);
  const uint8_t bytes[] = {'a', 'b'};
  EXPECT_TRUE(WriteAt(fd, path, 3, bytes).ok());
  close(fd);
  EXPECT_EQ(ReadTestFile(path), "012ab56789");
}

TEST(FileUtilTest, WriteAtReportsAFullDevice) {
  const int fd = open("/dev/full", O_WRONLY);
  if (fd < 0) GTEST_SKIP() << "this system has no /dev/full";
  const uint8_t bytes[] = {1};
  EXPECT_EQ(WriteAt(fd, "/dev/full", 0, bytes).code(), absl::StatusCode::kResourceExhausted);
  close(fd);
}

TEST(FileUtilTest, TemporarySiblingsDiffer) {
  std::set<std::string> names;
  for (int i = 0; i < 100; ++i) names.insert(TemporarySibling("dir/f", "tmp"));
  EXPECT_EQ(names.size(), 100u);
  EXPECT_THAT(*names.begin(), ::testing::StartsWith("dir/f.tmp-"));
}

}  // namespace
}  // namespace zeroth
