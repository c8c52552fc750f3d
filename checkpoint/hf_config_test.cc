// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_config.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

constexpr char kText[] =
    R"({"model_type": "gpt2", "n_embd": 60, "eps": 1e-5, "one": 1, "tied": true, "n_inner": null,
  "huge": 18446744073709551615, "whole": 3.0, "rope": {"theta": 10000.0, "scaling": null}, "ids": [1, 2]})";

TEST(HfConfigTest, ReadsTypes) {
  const auto config = HfConfig::Parse(kText, "c.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->ModelType(), "gpt2");
  EXPECT_EQ(*config->GetInt("n_embd"), 60);
  EXPECT_EQ(*config->GetDouble("eps"), 1e-5);
  EXPECT_EQ(*config->GetDouble("one"), 1.0);
  EXPECT_TRUE(*config->GetBool("tied"));
  EXPECT_EQ(*config->GetDouble("rope.theta"), 10000.0);
  EXPECT_TRUE(config->Has("rope"));
  EXPECT_FALSE(config->Has("n_inner"));
  EXPECT_FALSE(config->Has("rope.scaling"));
  EXPECT_FALSE(config->Has("n_embd.x"));
}

TEST(HfConfigTest, FallbacksReplaceAbsentAndNullButNotWrong) {
  const auto config = HfConfig::Parse(kText, "c.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->GetIntOr("n_inner", 240), 240);
  EXPECT_EQ(*config->GetIntOr("n_embd", 1), 60);
  EXPECT_EQ(*config->GetStringOr("activation", "gelu_new"), "gelu_new");
  EXPECT_EQ(*config->GetDoubleOr("rope.scaling", 2.0), 2.0);
  EXPECT_FALSE(*config->GetBoolOr("absent", false));
  EXPECT_FALSE(config->GetBoolOr("n_embd", false).ok());
  EXPECT_FALSE(config->GetIntOr("eps", 3).ok());
}

TEST(HfConfigTest, ErrorsNameFileKeyAndValue) {
  const auto config = HfConfig::Parse(kText, "c.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(std::string(config->GetInt("tied").status().message()),
            "c.json: key \"tied\" is true, expected an integer");
  EXPECT_EQ(std::string(config->GetInt("n_layer").status().message()),
            "c.json: no key \"n_layer\", expected an integer");
  for (const char* key : {"huge", "whole", "eps", "model_type", "rope", "ids"}) {
    EXPECT_EQ(config->GetInt(key).status().code(), absl::StatusCode::kInvalidArgument) << key;
  }
  EXPECT_FALSE(config->GetString("n_embd").ok());
  EXPECT_FALSE(config->GetDouble("model_type").ok());
  EXPECT_THAT(std::string(HfConfig::Parse("[1]", "c.json").status().message()),
              HasSubstr("c.json: expected a JSON object, found array"));
}

TEST(HfConfigTest, LoadsFilesAndPrintsThem) {
  const TemporaryDirectory dir;
  const auto config = HfConfig::Load("tests/testdata/llama_tiny/config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config->GetInt("num_key_value_heads"), 2);
  EXPECT_EQ(*config->GetDouble("rope_parameters.rope_theta"), 10000.0);
  const auto again = HfConfig::Load(dir.Write("config.json", config->ToString()));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->json(), config->json());
  EXPECT_EQ(HfConfig::Load(dir.File("absent")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace zeroth
