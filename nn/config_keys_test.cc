// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Every key of a config.json is known, known to be harmless, or refused by its name.

#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/decoder/rope_config.h"
#include "zeroth/nn/language_model.h"

namespace zeroth {
namespace {

// transformers 5.24's output for the defaults of each family: Config().to_dict().
nlohmann::json Configs() {
  std::ifstream file("tests/testdata/transformers_configs.json");
  return nlohmann::json::parse(file);
}

std::string Error(const nlohmann::json& config) {
  return std::string(ModelRegistry::Create(config).status().message());
}

TEST(ConfigKeysTest, TheKeysThatTransformersWritesAreKnown) {
  const nlohmann::json configs = Configs();
  EXPECT_EQ(configs.size(), 13u);
  for (const auto& [family, config] : configs.items()) EXPECT_EQ(Error(config), "") << family;
}

// As published with SmolLM2, distilgpt2 and early conversions of Llama.
TEST(ConfigKeysTest, KeysOfOtherProgramsAreIgnored) {
  const nlohmann::json configs = Configs();
  for (const auto& [family, config] : configs.items()) {
    nlohmann::json more = config;
    more.update(nlohmann::json{{"is_llama_config", true},
                               {"rope_interleaved", false},
                               {"max_sequence_length", 2048},
                               {"_num_labels", 1},
                               {"_flash_attn_2_enabled", true},
                               {"transformers.js_config", {{"dtype", "q4"}}}});
    EXPECT_EQ(Error(more), "") << family;
  }
}

TEST(ConfigKeysTest, AKeyThatIsUnknownIsRefusedByName) {
  const nlohmann::json configs = Configs();
  for (const auto& [family, config] : configs.items()) {
    SCOPED_TRACE(family);
    nlohmann::json more = config;
    more["attention_multiplier"] = 0.5;
    EXPECT_TRUE(absl::StrContains(
        Error(more), absl::StrCat("'attention_multiplier' is unknown for model_type \"", family,
                                  "\" and may change what the model computes")))
        << Error(more);
    // Keys that are off or absent change nothing.
    for (const nlohmann::json& off : {nlohmann::json(nullptr), nlohmann::json(false)}) {
      more["attention_multiplier"] = off;
      EXPECT_EQ(Error(more), "");
    }
    for (const char* const key : {"quantization_config", "auto_map", "pruned_heads"}) {
      nlohmann::json other = config;
      // The code beside Phi-3's files computes what transformers computes.
      if (family == "phi3" && std::string(key) == "auto_map") continue;
      other[key] = {{"0", {1}}};
      EXPECT_TRUE(absl::StrContains(Error(other), absl::StrCat("'", key, "' is set: ")))
          << Error(other);
    }
  }
  nlohmann::json rope = Configs()["llama"];
  rope["rope_parameters"]["interleaved"] = true;
  EXPECT_TRUE(absl::StrContains(Error(rope), "'rope_parameters.interleaved'")) << Error(rope);
}

// gpt-oss has YaRN by default, which a file may replace by any other kind.
TEST(ConfigKeysTest, RotaryPositionsOfAFileReplaceThoseOfItsFamily) {
  RopeSpec yarn;
  yarn.type = RopeSpec::Type::kYarn;
  yarn.theta = 150000;
  yarn.factor = 32;
  yarn.original_context = 4096;
  yarn.truncate = false;
  yarn.attention_factor = 1.5;
  EXPECT_EQ(*ReadRope({{"rope_theta", 150000.0}}, yarn, 1 << 17), yarn);
  const auto plain = ReadRope({{"rope_parameters", {{"rope_type", "default"}}}}, yarn, 1 << 17);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(*plain, RopeSpec{.theta = 150000});
}

TEST(ConfigKeysTest, AnotherLimitOfGptOssIsRefused) {
  nlohmann::json config = Configs()["gpt_oss"];
  for (const char* const key : {"swiglu_limit", "swiglu_alpha"}) {
    nlohmann::json other = config;
    other[key] = 5.0;
    EXPECT_TRUE(absl::StrContains(Error(other), absl::StrCat("'", key, "' is 5"))) << Error(other);
  }
  // Published files have keys that transformers does not read.
  config.update({{"experts_per_token", 4}, {"initial_context_length", 4096}});
  EXPECT_EQ(Error(config), "");
}

// Ministral has windows in some layers only.
TEST(ConfigKeysTest, LayersHaveTheWindowTogetherOrNotAtAll) {
  nlohmann::json config = Configs()["mistral"];
  config["num_hidden_layers"] = 2;
  config["sliding_window"] = 16;
  const auto window_with = [&](const nlohmann::json& types) {
    config["layer_types"] = types;
    const auto model = ModelRegistry::Create(config);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? (*model)->HfConfig()["sliding_window"] : nlohmann::json();
  };
  EXPECT_EQ(window_with({"sliding_attention", "sliding_attention"}), 16);
  EXPECT_EQ(window_with({"full_attention", "full_attention"}), nullptr);
  for (const nlohmann::json& types :
       {nlohmann::json({"sliding_attention", "full_attention"}), nlohmann::json({"full_attention"}),
        nlohmann::json("full_attention")}) {
    config["layer_types"] = types;
    EXPECT_TRUE(absl::StrContains(Error(config), "'layer_types' is ")) << Error(config);
  }
}

// transformers' Dots1Config has a window of 4096 by default, in layers from max_window_layers on,
// 62 by default.
TEST(ConfigKeysTest, ADots1HasNoWindowWhateverItsSize) {
  std::ifstream file("tests/testdata/dots1_tiny/config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  config["sliding_window"] = 4096;
  const auto model = ModelRegistry::Create(config);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->HfConfig()["sliding_window"], nullptr);
  config["layer_types"][2] = "sliding_attention";
  EXPECT_TRUE(absl::StrContains(Error(config), "'sliding_window' is 4096")) << Error(config);
  config.erase("layer_types");
  EXPECT_EQ(Error(config), "");
  config["max_window_layers"] = 2;
  EXPECT_TRUE(absl::StrContains(Error(config), "'sliding_window' is 4096")) << Error(config);
  config.erase("sliding_window");
  EXPECT_TRUE(absl::StrContains(Error(config), "'sliding_window' is missing")) << Error(config);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(Error(config), "");
}

// Older files have the pattern and two bases; transformers 5 lists the layers, and has an object of
// rotary positions for each kind.
TEST(ConfigKeysTest, OldAndNewKeysOfGemmaMeanTheSame) {
  nlohmann::json newer = Configs()["gemma3_text"];
  newer["num_hidden_layers"] = 3;
  newer["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  newer["rope_parameters"] = {
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5e3}}},
      {"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}}};
  nlohmann::json older = newer;
  for (const char* key : {"layer_types", "rope_parameters", "_sliding_window_pattern"}) {
    older.erase(key);
  }
  older["sliding_window_pattern"] = 2;
  older["rope_theta"] = 2e6;
  older["rope_local_base_freq"] = 5e3;
  older["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  for (const nlohmann::json& config : {newer, older}) {
    const auto model = ModelRegistry::Create(config);
    ASSERT_TRUE(model.ok()) << model.status();
    const nlohmann::json written = (*model)->HfConfig();
    EXPECT_EQ(written["layer_types"], newer["layer_types"]);
    for (const auto& [kind, theta, factor] :
         {std::tuple("full_attention", 2e6, 8.0), std::tuple("sliding_attention", 5e3, 1.0)}) {
      const auto rope = ReadRopeOfLayers(written, kind, {}, 64);
      ASSERT_TRUE(rope.ok()) << rope.status();
      EXPECT_EQ(rope->theta, theta) << config;
      EXPECT_EQ(rope->factor, factor) << config;
    }
  }
}

// The published configurations, as older and newer transformers write them.
TEST(ConfigKeysTest, APhiRotatesAPartOfAHeadByALongRope) {
  nlohmann::json config = Configs()["phi3"];
  config["hidden_size"] = 32;
  config["num_attention_heads"] = 4;
  config["num_key_value_heads"] = 2;
  config["num_hidden_layers"] = 1;
  config["max_position_embeddings"] = 64;
  config["original_max_position_embeddings"] = 16;
  config["auto_map"] = {{"AutoConfig", "configuration_phi3.Phi3Config"}};
  config["full_attn_mod"] = config["interpolate_factor"] = 1;
  const nlohmann::json rope = {{"rope_type", "longrope"},
                               {"short_factor", {1.0, 1.5, 2.0}},
                               {"long_factor", {1.0, 3.0, 8.0}}};
  nlohmann::json newer = config;
  newer["rope_parameters"] = rope;
  newer["rope_parameters"]["rope_theta"] = 500.0;
  newer["rope_parameters"]["partial_rotary_factor"] = 0.75;
  nlohmann::json older = config;
  older["rope_parameters"] = nullptr;
  older["rope_scaling"] = rope;
  older["rope_theta"] = 500.0;
  older["partial_rotary_factor"] = 0.75;
  for (const nlohmann::json& file : {newer, older}) {
    const auto model = ModelRegistry::Create(file);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->CacheValidUpTo(), 16);
    const auto spec = ReadRope((*model)->HfConfig(), {}, 64, RopeKeys::kPhi3);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->rotary_dim(8), 6);
    EXPECT_EQ(spec->theta, 500.0);
    EXPECT_EQ(spec->long_factors, (std::vector<double>{1.0, 3.0, 8.0}));
    // transformers: the square root of 1 + log(64 / 16) / log(16).
    EXPECT_NEAR(spec->attention_factor, 1.224744871391589, 1e-12);
  }
  for (const char* older_name : {"su", "yarn"}) {
    nlohmann::json file = newer;
    file["rope_parameters"]["rope_type"] = older_name;
    const auto spec = ReadRope(file, {}, 64, RopeKeys::kPhi3);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(*spec, *ReadRope(newer, {}, 64, RopeKeys::kPhi3)) << older_name;
  }
  // transformers: 4096 unless the key is beside the object, and sqrt(1 + log(16384 / 4096) /
  // log(4096)).
  nlohmann::json without = newer;
  without.erase("original_max_position_embeddings");
  const auto by_default = ReadRope(without, {}, 16384, RopeKeys::kPhi3);
  ASSERT_TRUE(by_default.ok()) << by_default.status();
  EXPECT_EQ(by_default->original_context, 4096);
  EXPECT_NEAR(by_default->attention_factor, 1.0801234497346435, 1e-12);
  without["rope_parameters"]["original_max_position_embeddings"] = 8192;
  EXPECT_TRUE(absl::StrContains(Error(without), "is 8192, expected 4096")) << Error(without);
  const auto refused = [&](const char* key, const nlohmann::json& value, const char* what) {
    nlohmann::json other = newer;
    other["rope_parameters"][key] = value;
    EXPECT_TRUE(absl::StrContains(Error(other), what)) << Error(other);
  };
  refused("long_factor", {1.0, 3.0}, "'long_factor' has 2 numbers, expected 3");
  refused("short_factor", {1.0, 0.0, 2.0}, "'rope_parameters.short_factor' is [1.0,0.0,2.0]");
  refused("short_factor", nullptr, "'rope_parameters.short_factor'");
  refused("partial_rotary_factor", 1.5, "'rope_parameters.partial_rotary_factor' is 1.5");
  refused("partial_rotary_factor", 0.875, "rotates 7 of the 8 elements of a head");
  refused("original_max_position_embeddings", 8, "is 8, expected 16");
  refused("rope_type", "linear", "is \"linear\", expected default or longrope");
  nlohmann::json bias = newer;
  bias["attention_bias"] = true;
  EXPECT_TRUE(absl::StrContains(Error(bias), "'attention_bias' is true")) << Error(bias);
  nlohmann::json other = newer;
  other["full_attn_mod"] = 2;
  EXPECT_TRUE(absl::StrContains(Error(other), "'full_attn_mod' is 2")) << Error(other);
}

}  // namespace
}  // namespace zeroth
