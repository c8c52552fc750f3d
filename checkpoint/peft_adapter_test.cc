// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/peft_adapter.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace zeroth {
namespace {

PeftAdapter Adapter() {
  PeftAdapter adapter;
  adapter.rank = 8;
  adapter.alpha = 16;
  adapter.layers = {"transformer.h.0.attn.c_proj", "transformer.h.0.attn.c_attn",
                    "transformer.h.11.attn.c_proj"};
  return adapter;
}

TEST(PeftAdapterTest, TheConfigSaysWhatPeftReads) {
  PeftAdapter adapter = Adapter();
  adapter.fan_in_fan_out = true;
  adapter.base_model = "models/gpt2";
  const auto config = PeftAdapterConfig(adapter);
  ASSERT_TRUE(config.ok()) << config.status();
  const nlohmann::json& json = config->json();
  EXPECT_EQ(json["peft_type"], "LORA");
  EXPECT_EQ(json["r"], 8);
  EXPECT_TRUE(json["lora_alpha"].is_number_integer());
  EXPECT_EQ(json["lora_alpha"], 16);
  EXPECT_EQ(json["fan_in_fan_out"], true);
  EXPECT_EQ(json["base_model_name_or_path"], "models/gpt2");
  // Not "c_proj", which is also a layer of the MLP.
  EXPECT_EQ(json["target_modules"], nlohmann::json({"attn.c_attn", "attn.c_proj"}));
  adapter.alpha = 2.5;
  adapter.base_model.clear();
  EXPECT_EQ(PeftAdapterConfig(adapter)->json()["lora_alpha"], 2.5);
  EXPECT_EQ(PeftAdapterConfig(adapter)->json()["use_rslora"], false);
  EXPECT_EQ(adapter.scale(), 2.5 / 8);
  adapter.rslora = true;
  EXPECT_EQ(PeftAdapterConfig(adapter)->json()["use_dora"], false);
  adapter.dora = true;
  adapter.dropout = 0.05;
  EXPECT_TRUE(PeftAdapterConfig(adapter)->json()["modules_to_save"].is_null());
  EXPECT_FALSE(PeftAdapterConfig(adapter)->json().contains("ensure_weight_tying"));
  adapter.modules_to_save = {"embed_tokens", "lm_head"};
  adapter.ties_weights = true;
  const auto stabilized = PeftAdapterConfig(adapter);
  ASSERT_TRUE(stabilized.ok()) << stabilized.status();
  EXPECT_EQ(stabilized->json()["use_rslora"], true);
  const auto read = ParsePeftAdapter(*stabilized);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dropout, 0.05);
  EXPECT_TRUE(read->dora);
  EXPECT_EQ(read->modules_to_save, adapter.modules_to_save);
  EXPECT_EQ(stabilized->json()["ensure_weight_tying"], true);
  EXPECT_TRUE(read->Saves("model.embed_tokens.weight"));
  EXPECT_FALSE(read->Saves("model.norm.weight"));
  EXPECT_NEAR(read->scale(), 2.5 / 2.8284271247461903, 1e-15);
  EXPECT_TRUE(PeftAdapterConfig(adapter)->json()["base_model_name_or_path"].is_null());
}

// PEFT 0.21's output for the defaults: LoraConfig().to_dict(). A key with another value is read,
// known to change nothing, or refused by its name.
TEST(PeftAdapterTest, EveryKeyThatPeftWritesIsKnown) {
  std::ifstream file("tests/testdata/peft_lora_config.json");
  const nlohmann::json written = nlohmann::json::parse(file);
  const auto parse = [](const nlohmann::json& json) {
    return ParsePeftAdapter(*HfConfig::Parse(json.dump(), "adapter_config.json")).status();
  };
  EXPECT_EQ(parse(written), absl::OkStatus());
  int refused = 0;
  for (const auto& [key, value] : written.items()) {
    nlohmann::json other = written;
    other[key] = {{"some", "thing"}};
    const absl::Status status = parse(other);
    if (status.ok()) continue;
    ++refused;
    EXPECT_NE(status.message().find(absl::StrCat("\"", key, "\"")), std::string::npos) << status;
  }
  EXPECT_GE(refused, 22);
  nlohmann::json other = written;
  other["use_a_later_method"] = true;
  EXPECT_NE(parse(other).message().find("\"use_a_later_method\""), std::string::npos);
}

TEST(PeftAdapterTest, NamesOfTensors) {
  EXPECT_EQ(PeftNameOfA("model.layers.0.self_attn.q_proj"),
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
  EXPECT_EQ(PeftNameOfB("model.layers.0.self_attn.q_proj"),
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
  EXPECT_EQ(PeftNameOfMagnitude("model.layers.0.self_attn.q_proj"),
            "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector");
}

TEST(PeftAdapterTest, AnAdapterOfNothingIsRefused) {
  PeftAdapter adapter = Adapter();
  adapter.layers.clear();
  EXPECT_EQ(PeftAdapterConfig(adapter).status().code(), absl::StatusCode::kInvalidArgument);
  adapter = Adapter();
  adapter.rank = 0;
  EXPECT_EQ(PeftAdapterConfig(adapter).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth
