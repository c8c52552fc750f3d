// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/mapped_file.h"

#include <sys/stat.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

TEST(MappedFileTest, ShowsTheBytes) {
  const TemporaryDirectory dir;
  const std::string content("ab\0c", 4);
  const auto file = MappedFile::Open(dir.Write("f", content));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 4u);
  EXPECT_EQ(std::string(file->text()), content);
  EXPECT_EQ(file->path(), dir.File("f"));
}

TEST(MappedFileTest, EmptyFileHasNoBytes) {
  const TemporaryDirectory dir;
  const auto file = MappedFile::Open(dir.Write("f", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 0u);
  EXPECT_TRUE(file->text().empty());
}

TEST(MappedFileTest, MovingKeepsTheAddressAndUnmapsOnce) {
  const TemporaryDirectory dir;
  MappedFile first = *MappedFile::Open(dir.Write("f", "first"));
  MappedFile second = *MappedFile::Open(dir.Write("g", "second"));
  const uint8_t* const address = second.data();
  first = std::move(second);
  EXPECT_EQ(first.data(), address);
  MappedFile third(std::move(first));
  EXPECT_EQ(std::string(third.text()), "second");
}

TEST(MappedFileTest, RefusesWhatIsNoFile) {
  const TemporaryDirectory dir;
  const auto absent = MappedFile::Open(dir.File("absent"));
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr(dir.File("absent")));

  const auto directory = MappedFile::Open(dir.path());
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(directory.status().message()), HasSubstr("found a directory"));

  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(dir.File("pipe")).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth
