// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_directory_writer.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(HfDirectoryWriterTest, WritesTokenizerFiles) {
  const TemporaryDirectory dir;
  auto writer = HfDirectoryWriter::Create(dir.File("out"), Config(1), {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE((*writer)->WriteTokenizerFile("vocab.json", "{\"a\": 0}").ok());
  EXPECT_TRUE((*writer)->WriteTokenizerFile("generation_config.json", "{}").ok());
  EXPECT_EQ((*writer)->WriteTokenizerFile("notes.txt", "x").code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(ReadTestFile(dir.File("out/vocab.json")), "{\"a\": 0}");
}

TEST(HfDirectoryWriterTest, WhatAKilledWriterLeftIsRemovedByTheNext) {
  const TemporaryDirectory dir;
  const pid_t child = fork();
  if (child == 0) {
    const auto writer = HfDirectoryWriter::Create(dir.File("final"), Config(1),
                                                  {{"w", DType::kFloat32, Shape{1000}}});
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_EQ(dir.List().size(), 1u);
  // Another one that is writing at the same time stays.
  const auto living =
      HfDirectoryWriter::Create(dir.File("final"), Config(2), {{"w", DType::kFloat32, Shape{1}}});
  ASSERT_TRUE(living.ok()) << living.status();
  EXPECT_EQ(dir.List().size(), 1u) << "the living one's";
  ASSERT_TRUE(WriteModel(dir.File("final"), 3).ok());
  ASSERT_TRUE((*living)->Write("w", 0, {2.0f}).ok());
  ASSERT_TRUE((*living)->Finish().ok());
  ExpectModel(dir.File("final"), 2);
  EXPECT_EQ(dir.List(), std::vector<std::string>{"final"});
}

// Where a file system cannot exchange two names, a process may be killed between two renames, or
// before it removes the earlier model.
TEST(HfDirectoryWriterTest, AnEarlierModelThatWasRenamedComesBackOrGoes) {
  const TemporaryDirectory dir;
  const std::string previous = dir.File("out.previous-0123456789abcdef");
  ASSERT_TRUE(WriteModel(previous, 1).ok());
  {
    const auto writer =
        HfDirectoryWriter::Create(dir.File("out"), Config(2), {{"w", DType::kFloat32, Shape{1}}});
    ASSERT_TRUE(writer.ok()) << writer.status();
  }
  EXPECT_THAT(dir.List(), ElementsAre("out"));
  ExpectModel(dir.File("out"), 1);
  ASSERT_TRUE(WriteModel(previous, 1).ok());
  dir.Write("out.previous-fedcba9876543210/thesis.tex", "x");
  ASSERT_TRUE(WriteModel(dir.File("out"), 3).ok());
  EXPECT_THAT(dir.List(), ElementsAre("out", "out.previous-fedcba9876543210"));
  ExpectModel(dir.File("out"), 3);
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
  // A directory with a model file's name is not a model file.
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

// Five tensors of 40, 8, 100, 0 and 4 bytes, in an order that is not that of their names.
std::vector<TensorDeclaration> FiveTensors() {
  return {{"e", DType::kFloat32, {10}},
          {"d", DType::kBFloat16, {2, 2}},
          {"c", DType::kFloat32, {5, 5}},
          {"b", DType::kFloat32, {0}},
          {"a", DType::kFloat32, {}}};
}

std::vector<std::string> FilesWith(int64_t max_shard_bytes) {
  const TemporaryDirectory dir;
  const std::string path = dir.File("model");
  HfDirectoryOptions options;
  options.max_shard_bytes = max_shard_bytes;
  auto writer = HfDirectoryWriter::Create(path, Config(1), FiveTensors(), options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const TensorDeclaration& tensor : FiveTensors()) {
    const std::vector<float> values(static_cast<size_t>(tensor.shape.numel()), tensor.name[0]);
    EXPECT_TRUE((*writer)->Write(tensor.name, 0, values).ok());
  }
  EXPECT_EQ((*writer)->Write("nobody", 0, {}).code(), absl::StatusCode::kNotFound);
  const absl::Status finished = (*writer)->Finish();
  EXPECT_TRUE(finished.ok()) << finished;
  // The reader compares the index with the files.
  const auto directory = HfDirectory::Open(path);
  EXPECT_TRUE(directory.ok()) << directory.status();
  EXPECT_THAT(directory->weights().names(), ElementsAre("a", "b", "c", "d", "e"));
  for (const TensorDeclaration& tensor : FiveTensors()) {
    EXPECT_THAT(*directory->weights().ReadAll(tensor.name, tensor.shape),
                ::testing::Each(static_cast<float>(tensor.name[0])));
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    files.push_back(entry.path().filename().string());
  }
  return files;
}

TEST(HfDirectoryWriterTest, DividesWeightsIntoFilesWithAnIndex) {
  EXPECT_THAT(FilesWith(0), UnorderedElementsAre("config.json", "model.safetensors"));
  EXPECT_THAT(FilesWith(152), UnorderedElementsAre("config.json", "model.safetensors"));
  // The files hold 40 and 8 bytes; 100, which alone exceeds the limit, with the empty tensor; and
  // 4.
  EXPECT_THAT(FilesWith(48), UnorderedElementsAre("config.json", "model.safetensors.index.json",
                                                  "model-00001-of-00003.safetensors",
                                                  "model-00002-of-00003.safetensors",
                                                  "model-00003-of-00003.safetensors"));
  EXPECT_EQ(FilesWith(1).size(), 2u + 5u - 1u);
}

TEST(HfDirectoryWriterTest, RefusesANegativeLimitAndNamesThatRepeatAcrossFiles) {
  const TemporaryDirectory dir;
  HfDirectoryOptions options;
  options.max_shard_bytes = -1;
  EXPECT_EQ(
      HfDirectoryWriter::Create(dir.File("m"), Config(1), FiveTensors(), options).status().code(),
      absl::StatusCode::kInvalidArgument);
  options.max_shard_bytes = 1;
  std::vector<TensorDeclaration> tensors = FiveTensors();
  tensors.push_back(tensors.front());
  const absl::Status status =
      HfDirectoryWriter::Create(dir.File("m"), Config(1), tensors, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("\"e\" is declared twice"));
  EXPECT_TRUE(dir.List().empty());
}

TEST(HfDirectoryWriterTest, AnAdapterReplacesAnAdapterOnly) {
  const TemporaryDirectory dir;
  HfDirectoryOptions options;
  options.kind = HfDirectoryKind::kAdapter;
  const auto write = [&](const std::string& name) -> absl::Status {
    auto writer = HfDirectoryWriter::Create(dir.File(name), Config(1),
                                            {{"a", DType::kBFloat16, {1}}}, options);
    if (!writer.ok()) return writer.status();
    absl::Status status = (*writer)->Write("a", 0, {2.0f});
    status.Update((*writer)->Finish());
    return status;
  };
  ASSERT_TRUE(write("adapter").ok());
  ASSERT_TRUE(write("adapter").ok());
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir.File("adapter"))) {
    files.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(files, UnorderedElementsAre("adapter_config.json", "adapter_model.safetensors"));
  ASSERT_TRUE(WriteModel(dir.File("model"), 1).ok());
  const absl::Status over_model = write("model");
  EXPECT_EQ(over_model.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(over_model.message(), HasSubstr("which is not part of an adapter"));
  EXPECT_EQ(WriteModel(dir.File("adapter"), 1).code(), absl::StatusCode::kAlreadyExists);
  options.max_shard_bytes = 10;
  EXPECT_EQ(write("other").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth
