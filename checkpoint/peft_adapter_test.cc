// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/peft_adapter.h"

#include <string>

#include "absl/status/status.h"
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
  EXPECT_TRUE(PeftAdapterConfig(adapter)->json()["base_model_name_or_path"].is_null());
}

TEST(PeftAdapterTest, NamesOfTensors) {
  EXPECT_EQ(PeftNameOfA("model.layers.0.self_attn.q_proj"),
            "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
  EXPECT_EQ(PeftNameOfB("model.layers.0.self_attn.q_proj"),
            "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
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
