// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_directory_writer.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

HfConfig Config(int value) {
  return *HfConfig::Parse("{\"value\": " + std::to_string(value) + "}", "test");
}

// A model of one element, whose config and weight are `value`.
absl::Status WriteModel(const std::string& path, int value) {
  auto writer = HfDirectoryWriter::Create(path, Config(value), {{"w", DType::kFloat32, Shape{1}}});
  if (!writer.ok()) return writer.status();
  absl::Status status = (*writer)->Write("w", 0, {static_cast<float>(value)});
  status.Update((*writer)->Finish());
  return status;
}

void ExpectModel(const std::string& path, int value) {
  const auto directory = HfDirectory::Open(path);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(*directory->config().GetInt("value"), value);
  EXPECT_EQ((*directory->weights().ReadAll("w", Shape{1}))[0], static_cast<float>(value));
}

TEST(HfDirectoryWriterTest, WritesAndReplaces) {
  const TemporaryDirectory dir;
  const std::string path = dir.File("runs/a/final");
  ASSERT_TRUE(WriteModel(path, 1).ok());
  ExpectModel(path, 1);
  dir.Write("runs/a/final/vocab.json", "{}");
  const absl::Status second = WriteModel(path + "/", 2);
  ASSERT_TRUE(second.ok()) << second;
  ExpectModel(path, 2);
  // Nothing of the earlier model and no temporary directory is left.
  EXPECT_TRUE(HfDirectory::Open(path)->TokenizerFiles().empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.File("runs/a")), {}), 1);
}

TEST(HfDirectoryWriterTest, AnEmptyDirectoryIsFree) {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir.File("out"));
  ASSERT_TRUE(WriteModel(dir.File("out"), 3).ok());
  ExpectModel(dir.File("out"), 3);
}

TEST(HfDirectoryWriterTest, FollowsALinkToTheDirectory) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(WriteModel(dir.File("real"), 1).ok());
  std::filesystem::create_directory_symlink(dir.File("real"), dir.File("link"));
  ASSERT_TRUE(WriteModel(dir.File("link"), 2).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(dir.File("link")));
  ExpectModel(dir.File("real"), 2);
}

TEST(HfDirectoryWriterTest, CopiesTokenizerFiles) {
  const TemporaryDirectory dir;
  const std::string vocab = dir.Write("from/vocab.json", "{\"a\": 0}");
  const std::string notes = dir.Write("from/notes.txt", "x");
  auto writer = HfDirectoryWriter::Create(dir.File("out"), Config(1), {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE((*writer)->CopyTokenizerFile(vocab).ok());
  EXPECT_EQ((*writer)->CopyTokenizerFile(notes).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*writer)->CopyTokenizerFile(dir.File("absent/vocab.json")).code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(ReadTestFile(dir.File("out/vocab.json")), "{\"a\": 0}");
}

TEST(HfDirectoryWriterTest, AnUnfinishedModelLeavesNothingAndKeepsTheEarlier) {
  const TemporaryDirectory dir;
  ASSERT_TRUE(WriteModel(dir.File("out"), 1).ok());
  {
    auto writer =
        HfDirectoryWriter::Create(dir.File("out"), Config(2), {{"w", DType::kFloat32, Shape{2}}});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Write("w", 1, {5.0f}).ok());
    ExpectModel(dir.File("out"), 1);
    EXPECT_THAT(std::string((*writer)->Finish().message()), HasSubstr("never written"));
  }
  EXPECT_THAT(dir.List(), ElementsAre("out"));
  ExpectModel(dir.File("out"), 1);
}

TEST(HfDirectoryWriterTest, DeletesNothingOfOthers) {
  const TemporaryDirectory dir;
  dir.Write("home/thesis.tex", "x");
  const absl::Status file = WriteModel(dir.File("home"), 1);
  EXPECT_EQ(file.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(file.message()), HasSubstr("holds \"thesis.tex\""));
  // A directory with a model file's name is no model file.
  dir.Write("nested/config.json/x", "x");
  EXPECT_EQ(WriteModel(dir.File("nested"), 1).code(), absl::StatusCode::kAlreadyExists);
  dir.Write("plain", "x");
  EXPECT_EQ(WriteModel(dir.File("plain"), 1).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadTestFile(dir.File("home/thesis.tex")), "x");
  EXPECT_THAT(dir.List(), UnorderedElementsAre("home", "nested", "plain"));
}

TEST(HfDirectoryWriterTest, AResultWhoseNameIsTakenLateIsKept) {
  const TemporaryDirectory dir;
  auto writer =
      HfDirectoryWriter::Create(dir.File("out"), Config(4), {{"w", DType::kFloat32, Shape{1}}});
  ASSERT_TRUE((*writer)->Write("w", 0, {4.0f}).ok());
  dir.Write("out/thesis.tex", "x");
  const absl::Status status = (*writer)->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the model is complete in "));
  writer->reset();
  ASSERT_EQ(dir.List().size(), 2u);
  ExpectModel(dir.File(dir.List()[1]), 4);
  EXPECT_EQ(ReadTestFile(dir.File("out/thesis.tex")), "x");
}

TEST(HfDirectoryWriterTest, AnUnwritablePlaceIsAnError) {
  const TemporaryDirectory dir;
  dir.Write("file", "x");
  EXPECT_FALSE(WriteModel(dir.File("file/out"), 1).ok());
  EXPECT_FALSE(WriteModel("/proc/zeroth/out", 1).ok());
  EXPECT_EQ(WriteModel("", 1).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth
