// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/data_files.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/test_token_files.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataFilesTest : public ::testing::Test {
 protected:
  // The names found for `spec` (inside the directory), relative to it.
  std::vector<std::string> Find(const std::string& spec) {
    const auto files = FindDataFiles(spec);
    EXPECT_TRUE(files.ok()) << files.status();
    std::vector<std::string> names;
    for (const DataFile& file : *files) names.push_back(file.path.substr(dir_.path().size() + 1));
    return names;
  }

  std::string ErrorOf(const std::string& spec, absl::StatusCode code) {
    const auto files = FindDataFiles(spec);
    EXPECT_EQ(files.status().code(), code) << files.status();
    return std::string(files.status().message());
  }

  const std::string npy_ = NpyBytes<uint16_t>("<u2", "(1,)", {1});
  TemporaryDirectory dir_;
};

TEST_F(DataFilesTest, WeightsStandBehindNames) {
  const auto split = [](const std::string& spec) {
    const auto parts = SplitWeights(spec);
    EXPECT_TRUE(parts.ok()) << parts.status();
    std::string text;
    for (const WeightedSpec& part : *parts)
      absl::StrAppend(&text, part.spec, "=", part.weight, ";");
    return text;
  };
  EXPECT_EQ(split("a.jsonl:0.7,b.bin:0.3"), "a.jsonl=0.7;b.bin=0.3;");
  EXPECT_EQ(split("dir/*.txt:2"), "dir/*.txt=2;");
  EXPECT_EQ(split("a,b"), "a,b=1;");
  EXPECT_EQ(split("a:b"), "a:b=1;");
  const std::string odd = dir_.Write("odd:3", "x");
  EXPECT_EQ(split(odd), odd + "=1;");
  EXPECT_EQ(split(odd + ":2,a:1"), odd + "=2;a=1;");
  for (const char* const bad : {"a:1,b", "a,b:1", "a:0,b:1", "a:-1", "a:nan", "a:inf"}) {
    const auto parts = SplitWeights(bad);
    EXPECT_EQ(parts.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(parts.status().message(), HasSubstr("weight")) << bad;
  }
}

TEST_F(DataFilesTest, DirectoriesAreSortedAndSifted) {
  dir_.Write("b.txt", "b");
  dir_.Write("B.md", "B");
  dir_.Write("a/z.cc", "z");
  dir_.Write("a/a", "\xff latin");
  dir_.Write("a-b", "x");
  dir_.Write("empty", "");
  dir_.Write("image.png", std::string("\x89PNG\0", 5));
  dir_.Write(".hidden", "x");
  dir_.Write(".git/config", "x");
  std::filesystem::create_directory_symlink(dir_.path(), dir_.File("loop"));
  EXPECT_THAT(Find(dir_.path()), ElementsAre("B.md", "a-b", "a/a", "a/z.cc", "b.txt"));
  std::vector<std::string> left_out;
  ASSERT_TRUE(FindDataFiles(dir_.path(), &left_out).ok());
  EXPECT_THAT(left_out, ElementsAre(dir_.File("empty"), dir_.File("image.png"), dir_.File("loop")));
  left_out.push_back("x");
  EXPECT_THAT(DescribeLeftOut(left_out), HasSubstr(dir_.File("loop") + " and 1 more"));
}

TEST_F(DataFilesTest, KindsComeFromTheContent) {
  dir_.Write("tokens", npy_);
  dir_.Write("shard.bin", LlmcBytes<uint32_t>({1}));
  const auto files = FindDataFiles(dir_.path());
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ((*files)[0].kind, DataFileKind::kLlmcBin);
  EXPECT_EQ((*files)[1].kind, DataFileKind::kNpy);
}

TEST_F(DataFilesTest, DataThatIsNotReadIsAnErrorInADirectoryToo) {
  dir_.Write("a.txt", "text");
  dir_.Write("package.json", "{\n \"name\": \"a\"\n}\n");
  dir_.Write("lines.json", "{\"text\": \"a\"}\n");
  const auto files = FindDataFiles(dir_.path());
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[1].kind, DataFileKind::kJsonLines);
  for (const char* const name : {"b.json", "b.txt"}) {
    const std::string array = dir_.Write(name, "[\"a\"]");
    EXPECT_THAT(ErrorOf(dir_.path(), absl::StatusCode::kInvalidArgument),
                HasSubstr(array + ": is a JSON array"));
    EXPECT_THAT(ErrorOf(dir_.File("b*"), absl::StatusCode::kInvalidArgument),
                HasSubstr(array + ": is a JSON array"));
    std::filesystem::remove(array);
  }
  dir_.Write("gz/a.tar.gz", "\x1f\x8b\x08");
  EXPECT_THAT(ErrorOf(dir_.File("gz"), absl::StatusCode::kNotFound),
              HasSubstr("a.tar.gz: is compressed by gzip"));
}

TEST_F(DataFilesTest, PatternsAndLists) {
  for (const char* name :
       {"t_2.txt", "t_10.txt", "u.txt", "sub/t_1.txt", "t_dir.txt/x", "a,b.txt", "[x].txt"}) {
    dir_.Write(name, "text");
  }
  EXPECT_THAT(Find(dir_.File("t_*.txt")), ElementsAre("t_10.txt", "t_2.txt"));
  EXPECT_THAT(Find(dir_.File("t_?.txt")), ElementsAre("t_2.txt"));
  EXPECT_THAT(Find(dir_.File("[t-u]*.txt")), ElementsAre("t_10.txt", "t_2.txt", "u.txt"));
  EXPECT_THAT(Find(dir_.File("*/t_?.txt")), ElementsAre("sub/t_1.txt"));
  EXPECT_THAT(Find(dir_.File("u.txt") + "," + dir_.File("sub") + "," + dir_.File("t_?.txt")),
              ElementsAre("u.txt", "sub/t_1.txt", "t_2.txt"));
  // A value that exists as a path is used as it is.
  EXPECT_THAT(Find(dir_.File("a,b.txt")), ElementsAre("a,b.txt"));
  EXPECT_THAT(Find(dir_.File("[x].txt")), ElementsAre("[x].txt"));
}

TEST_F(DataFilesTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(ErrorOf(dir_.File("absent"), absl::StatusCode::kNotFound),
              HasSubstr(dir_.File("absent")));
  EXPECT_THAT(ErrorOf(dir_.File("*.txt"), absl::StatusCode::kNotFound),
              HasSubstr("matches no file"));
  EXPECT_THAT(ErrorOf(dir_.path(), absl::StatusCode::kNotFound),
              HasSubstr("no files, expected text"));
  const std::string text = dir_.Write("t.txt", "text");
  EXPECT_THAT(ErrorOf(text + ",", absl::StatusCode::kInvalidArgument),
              HasSubstr("found an empty one"));
  EXPECT_THAT(ErrorOf(dir_.Write("empty.txt", ""), absl::StatusCode::kInvalidArgument),
              HasSubstr("is empty, expected text"));
  EXPECT_THAT(
      ErrorOf(dir_.Write("x.txt", std::string("a\0b", 3)), absl::StatusCode::kInvalidArgument),
      HasSubstr("is binary"));
  const std::string npy = dir_.Write("t.npy", npy_);
  EXPECT_THAT(ErrorOf(npy + "," + text, absl::StatusCode::kInvalidArgument),
              HasSubstr(text + " is text, " + npy + " holds tokens"));
}

TEST_F(DataFilesTest, DamagedTokenFilesAreNotSkipped) {
  dir_.Write("a.npy", npy_);
  dir_.Write("b.npy", "");
  EXPECT_THAT(ErrorOf(dir_.path(), absl::StatusCode::kInvalidArgument),
              HasSubstr("b.npy: is named .npy"));
  dir_.Write("b.npy", npy_);
  dir_.Write("c.bin", std::string(2000, '\0'));
  EXPECT_THAT(ErrorOf(dir_.path(), absl::StatusCode::kInvalidArgument),
              HasSubstr("c.bin: is named .bin"));
}

}  // namespace
}  // namespace zeroth
