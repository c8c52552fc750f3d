// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Tensors of one element each, its value counting from `first`.
void WriteShard(const TemporaryDirectory& dir, const std::string& file,
                const std::vector<std::string>& names, float first) {
  std::vector<TensorDeclaration> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::kFloat32, Shape{1}});
  auto writer = SafetensorsWriter::Create(dir.File(file), tensors);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const std::string& name : names) ASSERT_TRUE((*writer)->Write(name, 0, {first++}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
}

class ShardedWeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteShard(dir_, "one.safetensors", {"a", "c"}, 1);
    WriteShard(dir_, "two.safetensors", {"b"}, 10);
  }

  std::string OpenError(const std::string& weight_map) {
    dir_.Write("model.safetensors.index.json",
               "{\"metadata\": {}, \"weight_map\": " + weight_map + "}");
    const auto weights = HfWeights::Open(dir_.path());
    EXPECT_FALSE(weights.ok());
    return std::string(weights.status().message());
  }

  TemporaryDirectory dir_;
};

TEST_F(ShardedWeightsTest, ReadsAcrossFiles) {
  dir_.Write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"}})");
  const auto weights = HfWeights::Open(dir_.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_THAT((*weights)->names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ((*(*weights)->ReadAll("a", Shape{1}))[0], 1);
  EXPECT_EQ((*(*weights)->ReadAll("b", Shape{1}))[0], 10);
  EXPECT_EQ((*(*weights)->ReadAll("c", Shape{1}))[0], 2);
  EXPECT_EQ((*weights)->Find("d"), nullptr);
  float out = 0;
  const absl::Status missing = (*weights)->ReadElements("d", 0, absl::MakeSpan(&out, 1));
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr(dir_.path()));
}

TEST_F(ShardedWeightsTest, TheIndexAndTheFilesMustAgree) {
  EXPECT_THAT(OpenError(R"({"a": "one.safetensors", "b": "two.safetensors"})"),
              HasSubstr("does not list tensor \"c\""));
  EXPECT_THAT(
      OpenError(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "one.safetensors"})"),
      HasSubstr("tensor \"b\" should be in one.safetensors, but is in no file"));
  EXPECT_THAT(
      OpenError(R"({"a": "two.safetensors", "b": "two.safetensors", "c": "one.safetensors"})"),
      HasSubstr("tensor \"a\" should be in two.safetensors, but is in"));
  EXPECT_THAT(OpenError(R"({"a": "three.safetensors"})"), HasSubstr("three.safetensors"));
  WriteShard(dir_, "again.safetensors", {"a"}, 0);
  EXPECT_THAT(OpenError(R"({"a": "again.safetensors", "c": "one.safetensors"})"),
              HasSubstr("tensor \"a\" is both in"));
}

TEST_F(ShardedWeightsTest, TheIndexStaysInItsDirectory) {
  for (const char* name : {"\"../one.safetensors\"", "\"/etc/passwd\"", "\"..\"", "\"\"", "7"}) {
    EXPECT_THAT(OpenError(std::string("{\"a\": ") + name + "}"),
                HasSubstr("name of a file in the same directory"));
  }
  EXPECT_THAT(OpenError("[]"), HasSubstr("expected an object \"weight_map\""));
}

TEST(HfWeightsTest, SaysWhatIsThereInstead) {
  const TemporaryDirectory dir;
  EXPECT_THAT(std::string(HfWeights::Open(dir.path()).status().message()),
              HasSubstr("found no weights"));
  dir.Write("pytorch_model.bin", "x");
  const auto weights = HfWeights::Open(dir.path());
  EXPECT_EQ(weights.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(weights.status().message()), HasSubstr("found pytorch_model.bin"));
}

}  // namespace
}  // namespace zeroth
