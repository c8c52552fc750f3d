// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kModel[] = "tests/testdata/gpt2_tiny";

HfDirectory Open(const std::string& path) {
  auto model = HfDirectory::Open(path);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::vector<float> Values(const HfDirectory& model, const std::string& name) {
  const auto values = model.weights().ReadAll(name, model.weights().Find(name)->shape);
  EXPECT_TRUE(values.ok()) << values.status();
  return *values;
}

float Rounded(DType dtype, float value) {
  if (dtype == DType::kBFloat16) return ToFloat(ToBFloat16(value));
  return dtype == DType::kFloat16 ? ToFloat(ToFloat16(value)) : value;
}

class EveryType : public ::testing::TestWithParam<DType> {};

TEST_P(EveryType, RoundsEveryElementAndSaysSo) {
  const TemporaryDirectory dir;
  const HfDirectory model = Open(kModel);
  HfConvertOptions options;
  options.dtype = GetParam();
  const absl::Status status = ConvertHfToHf(model, dir.File("out"), options);
  ASSERT_TRUE(status.ok()) << status;
  const HfDirectory converted = Open(dir.File("out"));
  ASSERT_EQ(converted.weights().names(), model.weights().names());
  for (const std::string& name : model.weights().names()) {
    EXPECT_EQ(converted.weights().Find(name)->dtype, ToSafetensorsDType(GetParam())) << name;
    std::vector<float> expected = Values(model, name);
    for (float& value : expected) value = Rounded(GetParam(), value);
    EXPECT_EQ(Values(converted, name), expected) << name;
  }
  nlohmann::json expected = model.config().json();
  expected["torch_dtype"] = GetParam() == DType::kFloat32    ? "float32"
                            : GetParam() == DType::kBFloat16 ? "bfloat16"
                                                             : "float16";
  expected["dtype"] = expected["torch_dtype"];  // The model's configuration has both.
  EXPECT_EQ(converted.config().json(), expected);
}

INSTANTIATE_TEST_SUITE_P(Types, EveryType,
                         ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16),
                         [](const auto& type) { return std::string(DTypeName(type.param)); });

// Versions of transformers differ in which of the two they read.
TEST(HfConvertTest, NamesTheTypeUnderEachKeyThatIsThere) {
  for (const bool both : {false, true}) {
    nlohmann::json json = Open(kModel).config().json();
    json["dtype"] = "float32";
    json.erase("torch_dtype");
    if (both) json["torch_dtype"] = "float32";
    const auto config = WithDType(*HfConfig::Parse(json.dump(), "config.json"), DType::kBFloat16);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(*config->GetString("dtype"), "bfloat16");
    EXPECT_EQ(config->GetStringOr("torch_dtype", "none").value(), both ? "bfloat16" : "none");
  }
}

TEST(HfConvertTest, DividesAndJoinsFilesAndBringsTheTokenizer) {
  const TemporaryDirectory dir;
  HfConvertOptions options;
  options.directory.max_shard_bytes = 20000;
  ASSERT_TRUE(ConvertHfToHf(Open(kModel), dir.File("many"), options).ok());
  dir.Write("many/vocab.json", "{\"a\": 0}");
  dir.Write("many/tokenizer.model", std::string("\0\xff\n", 3));
  dir.Write("many/generation_config.json", "{\"eos_token_id\": [1, 2]}");
  const HfDirectory many = Open(dir.File("many"));
  ASSERT_TRUE(ConvertHfToHf(many, dir.File("one")).ok());
  const HfDirectory one = Open(dir.File("one"));
  EXPECT_EQ(one.config().json(), many.config().json());
  EXPECT_EQ(ReadTestFile(dir.File("one/vocab.json")), "{\"a\": 0}");
  EXPECT_EQ(ReadTestFile(dir.File("one/generation_config.json")), "{\"eos_token_id\": [1, 2]}");
  EXPECT_EQ(ReadTestFile(dir.File("one/tokenizer.model")), std::string("\0\xff\n", 3));
  const HfDirectory model = Open(kModel);
  ASSERT_EQ(one.weights().names(), model.weights().names());
  for (const std::string& name : model.weights().names()) {
    EXPECT_EQ(Values(many, name), Values(model, name)) << name;
    EXPECT_EQ(Values(one, name), Values(model, name)) << name;
  }
}

// A model of one tensor.
HfDirectory Small(const TemporaryDirectory& dir, const std::string& config, float value) {
  auto writer = HfDirectoryWriter::Create(dir.File("small"), *HfConfig::Parse(config, "config"),
                                          {{"w", DType::kFloat32, {1}}});
  EXPECT_TRUE(writer.ok()) << writer.status();
  EXPECT_TRUE((*writer)->Write("w", 0, {value}).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  return Open(dir.File("small"));
}

TEST(HfConvertTest, TheTypeGoesUnderTheKeyThatTheConfigHas) {
  const TemporaryDirectory dir;
  HfConvertOptions options;
  options.dtype = DType::kBFloat16;
  const HfDirectory model = Small(dir, "{\"dtype\": \"float32\"}", 1);
  ASSERT_TRUE(ConvertHfToHf(model, dir.File("out"), options).ok());
  EXPECT_EQ(Open(dir.File("out")).config().json(), nlohmann::json({{"dtype", "bfloat16"}}));
}

TEST(HfConvertTest, RefusesWhatFp16CannotHoldAndLeavesNothing) {
  const TemporaryDirectory dir;
  HfConvertOptions options;
  options.dtype = DType::kFloat16;
  const HfDirectory model = Small(dir, "{}", 70000);
  const absl::Status status = ConvertHfToHf(model, dir.File("out"), options);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("\"w\" holds 70000"));
  EXPECT_THAT(dir.List(), ElementsAre("small"));
}

// Our files hold no F64, so that each tensor cannot keep its type.
TEST(HfConvertTest, RoundsF64OnlyIfATypeIsNamed) {
  const TemporaryDirectory dir;
  const std::string header = "{\"w\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}";
  const auto little_endian = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  dir.Write("in/config.json", "{\"torch_dtype\": \"float64\"}");
  dir.Write("in/model.safetensors",
            little_endian(uint64_t{header.size()}) + header + little_endian(0.1));
  const HfDirectory model = Open(dir.File("in"));
  const absl::Status status = ConvertHfToHf(model, dir.File("out"), {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("tensor \"w\" is F64, which cannot be written"));
  EXPECT_THAT(dir.List(), ElementsAre("in"));
  HfConvertOptions options;
  options.dtype = DType::kFloat32;
  ASSERT_TRUE(ConvertHfToHf(model, dir.File("out"), options).ok());
  const HfDirectory converted = Open(dir.File("out"));
  EXPECT_EQ(Values(converted, "w"), std::vector<float>{0.1f});
  EXPECT_EQ(*converted.config().GetString("torch_dtype"), "float32");
}

}  // namespace
}  // namespace zeroth
