// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/random_access_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(RandomAccessFileTest, ReadsAnyRange) {
  const TemporaryDirectory dir;
  const std::string content("ab\0cd", 5);
  const auto file = RandomAccessFile::Open(dir.Write("f", content));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 5u);
  EXPECT_EQ(file->path(), dir.File("f"));
  std::vector<uint8_t> out(3);
  ASSERT_EQ(file->Read(1, absl::MakeSpan(out)), absl::OkStatus());
  EXPECT_EQ(Text(out), content.substr(1, 3));
  EXPECT_EQ(file->Read(5, {}), absl::OkStatus());
  EXPECT_EQ(Text(*file->ReadHead(2)), "ab");
  EXPECT_EQ(Text(*file->ReadHead(100)), content);
}

TEST(RandomAccessFileTest, EmptyFileHasNoBytes) {
  const TemporaryDirectory dir;
  const auto file = RandomAccessFile::Open(dir.Write("f", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 0u);
  EXPECT_TRUE(file->ReadHead(1)->empty());
}

TEST(RandomAccessFileTest, MovingHandsTheFileOver) {
  const TemporaryDirectory dir;
  RandomAccessFile first = *RandomAccessFile::Open(dir.Write("f", "first"));
  first = *RandomAccessFile::Open(dir.Write("g", "second"));
  const RandomAccessFile third(std::move(first));
  EXPECT_EQ(Text(*third.ReadHead(100)), "second");
  EXPECT_EQ(third.path(), dir.File("g"));
}

TEST(RandomAccessFileTest, RefusesAbsentFilesAndDirectories) {
  const TemporaryDirectory dir;
  const auto absent = RandomAccessFile::Open(dir.File("absent"));
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr(dir.File("absent")));

  const auto directory = RandomAccessFile::Open(dir.path());
  EXPECT_EQ(directory.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(directory.status().message()), HasSubstr("found a directory"));

  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(RandomAccessFile::Open(dir.File("pipe")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RandomAccessFileTest, AFileThatIsCutShortIsAnError) {
  const TemporaryDirectory dir;
  const std::string path = dir.Write("f", std::string(100000, 'x'));
  const auto file = RandomAccessFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(path, 12345);
  std::vector<uint8_t> out(1000);
  EXPECT_EQ(file->Read(11000, absl::MakeSpan(out)), absl::OkStatus());
  for (const size_t begin : {size_t{12000}, size_t{12345}, size_t{90000}}) {
    const absl::Status status = file->Read(begin, absl::MakeSpan(out));
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path),
                      HasSubstr(absl::StrCat("byte ", std::max<size_t>(begin, 12345), ",")),
                      HasSubstr("it had 100000 when it was opened")));
  }
}

TEST(RandomAccessFileTest, WhatTheSystemCannotReadIsAnError) {
  // A regular file whose bytes are this process's memory: where there is none, reads end in EIO.
  const auto file = RandomAccessFile::Open("/proc/self/mem");
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<uint8_t> out(8);
  const absl::Status status = file->Read(16, absl::MakeSpan(out));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot read the bytes [16, 24) of /proc/self/mem: Input/output error"));
}

TEST(RandomAccessFileTest, ManyFilesMayBeOpenBeyondTheSoftLimit) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const TemporaryDirectory dir;
  const std::string path = dir.Write("f", "x");
  std::vector<RandomAccessFile> files;
  for (int i = 0; i < 200; ++i) {
    auto file = RandomAccessFile::Open(path);
    ASSERT_TRUE(file.ok()) << i << ": " << file.status();
    files.push_back(*std::move(file));
  }
  EXPECT_EQ(Text(*files.front().ReadHead(1)), "x");
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace zeroth
