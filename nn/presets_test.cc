// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <map>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/language_model.h"

namespace zeroth {
namespace {

// Qwen3.5's are computed from the text models' config.json: the published files also hold a vision
// tower and multi-token prediction layers.
TEST(PresetsTest, HaveThePublishedNumbersOfParameters) {
  const std::map<std::string, int64_t> published = {
      {"gpt2_124m", 124439808},       {"gpt2_355m", 354823168},      {"gpt2_774m", 774030080},
      {"gpt2_1558m", 1557611200},     {"llama_1b", 1100048384},      {"llama32_1b", 1235814400},
      {"llama3_8b", 8030261248},      {"llama3_70b", 70553706496},   {"mistral_7b", 7241732096},
      {"olmo2_1b", 1484916736},       {"qwen25_0_5b", 494032768},    {"qwen3_0_6b", 596049920},
      {"qwen3_30b_a3b", 30532122624}, {"mixtral_8x7b", 46702792704}, {"gemma3_1b", 999885952},
      {"gemma2_2b", 2614341888},      {"gemma2_9b", 9241705984},     {"phi3_mini", 3821079552},
      {"phi4", 14659507200},          {"gemma3_4b", 3880263168},     {"gemma3_12b", 11766034176},
      {"gemma3_27b", 27009346304},    {"gpt_oss_20b", 20914757184},  {"gpt_oss_120b", 116829156672},
      {"qwen3_5_0_8b", 752393024},    {"qwen3_5_2b", 1881825088},    {"qwen3_5_4b", 4205751296},
      {"qwen3_5_9b", 8953803264},     {"qwen3_5_27b", 26895998464}};
  for (const std::string& name : PresetNames()) {
    const absl::StatusOr<nlohmann::json> config = PresetConfig(name);
    ASSERT_TRUE(config.ok()) << config.status();
    const absl::StatusOr<std::unique_ptr<LanguageModel>> model = ModelRegistry::Create(*config);
    ASSERT_TRUE(model.ok()) << name << ": " << model.status();
    const auto expected = published.find(name);
    if (expected != published.end()) {
      EXPECT_EQ((*model)->ParameterCount(), expected->second) << name;
    } else {
      EXPECT_LT((*model)->ParameterCount(), 1000000) << name;
    }
  }
}

// With a head that scores, the names are those of transformers 5.24.
TEST(PresetsTest, TheHeadMayScoreTexts) {
  const std::map<std::string, std::string> classifiers = {
      {"gemma2", "Gemma2ForSequenceClassification"},
      {"gemma3_text", "Gemma3TextForSequenceClassification"},
      {"gpt2", "GPT2ForSequenceClassification"},
      {"gpt_oss", "GptOssForSequenceClassification"},
      {"llama", "LlamaForSequenceClassification"},
      {"mistral", "MistralForSequenceClassification"},
      {"mixtral", "MixtralForSequenceClassification"},
      {"olmo2", "Olmo2ForSequenceClassification"},
      {"phi3", "Phi3ForSequenceClassification"},
      {"qwen3_5_text", "Qwen3_5TextForSequenceClassification"},
      {"qwen2", "Qwen2ForSequenceClassification"},
      {"qwen3", "Qwen3ForSequenceClassification"},
      {"qwen3_moe", "Qwen3MoeForSequenceClassification"}};
  ModelOptions options;
  options.scoring_head = true;
  for (const std::string& name : PresetNames()) {
    SCOPED_TRACE(name);
    const absl::StatusOr<std::unique_ptr<LanguageModel>> model =
        ModelRegistry::Create(*PresetConfig(name), options);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->scores());
    EXPECT_EQ((*model)->head_weight().name(), "score.weight");
    EXPECT_EQ((*model)->head_weight().shape().dim(0), 1);
    nlohmann::json config = (*model)->HfConfig();
    const auto expected = classifiers.find(config["model_type"].get<std::string>());
    ASSERT_NE(expected, classifiers.end());
    EXPECT_EQ(config["architectures"], nlohmann::json({expected->second}));
    // The configuration alone says it, and how many labels there are.
    EXPECT_TRUE((*ModelRegistry::Create(config))->scores());
    config["id2label"]["1"] = "LABEL_1";
    const absl::Status status = ModelRegistry::Create(config).status();
    EXPECT_NE(status.ToString().find("id2label"), std::string::npos) << status;
  }
}

// Families without presets: transformers has a classifier of Qwen2-MoE, but none of dots.llm1.
TEST(PresetsTest, FamiliesThatTransformersHasNoClassifierOfAreRefused) {
  nlohmann::json config = *PresetConfig("llama_tiny");
  config["model_type"] = "qwen2_moe";
  ModelOptions options;
  options.scoring_head = true;
  const absl::StatusOr<std::unique_ptr<LanguageModel>> model =
      ModelRegistry::Create(config, options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->HfConfig()["architectures"],
            nlohmann::json({"Qwen2MoeForSequenceClassification"}));
  nlohmann::json linear = *PresetConfig("llama_tiny");
  linear.erase("rope_theta");
  linear["model_type"] = "qwen3_5_text";
  const absl::StatusOr<std::unique_ptr<LanguageModel>> of_linear =
      ModelRegistry::Create(linear, options);
  ASSERT_TRUE(of_linear.ok()) << of_linear.status();
  EXPECT_EQ((*of_linear)->HfConfig()["architectures"],
            nlohmann::json({"Qwen3_5TextForSequenceClassification"}));

  config["model_type"] = "dots1";
  config.update({{"n_routed_experts", 4}, {"n_shared_experts", 1}, {"num_experts_per_tok", 2}});
  EXPECT_TRUE(ModelRegistry::Create(config).ok()) << ModelRegistry::Create(config).status();
  const absl::Status status = ModelRegistry::Create(config, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.ToString().find("dots1"), std::string::npos) << status;
  EXPECT_NE(status.ToString().find("--objective=reward"), std::string::npos) << status;
}

TEST(PresetsTest, AnUnknownNameListsTheKnownOnes) {
  const absl::Status status = PresetConfig("gpt5").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& name : PresetNames())
    EXPECT_NE(status.ToString().find(name), std::string::npos) << status;
  EXPECT_NE(status.ToString().find("its config.json for --model"), std::string::npos) << status;
}

// The configuration that a model reports builds the same model again.
TEST(PresetsTest, ConfigurationsRoundTrip) {
  for (const std::string& name : PresetNames()) {
    SCOPED_TRACE(name);
    const absl::StatusOr<std::unique_ptr<LanguageModel>> model =
        ModelRegistry::Create(*PresetConfig(name));
    ASSERT_TRUE(model.ok()) << model.status();
    const absl::StatusOr<std::unique_ptr<LanguageModel>> again =
        ModelRegistry::Create((*model)->HfConfig());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->HfConfig(), (*model)->HfConfig());
    const std::vector<Parameter*> a = (*model)->Parameters();
    const std::vector<Parameter*> b = (*again)->Parameters();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i]->name(), b[i]->name());
      EXPECT_EQ(a[i]->shape(), b[i]->shape());
    }
  }
}

TEST(PresetsTest, WhatIsNotComputedIsRefusedByKey) {
  const auto refused = [](const char* preset, const char* key, const nlohmann::json& value) {
    nlohmann::json config = *PresetConfig(preset);
    config[key] = value;
    const absl::Status status = ModelRegistry::Create(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << key;
    EXPECT_NE(status.ToString().find(key), std::string::npos) << status;
  };
  refused("gpt2_nano", "model_type", "bert");
  refused("gpt2_nano", "activation_function", "relu");
  refused("gpt2_nano", "n_head", 7);
  refused("gpt2_nano", "n_layer", -1);
  refused("gpt2_nano", "vocab_size", "many");
  refused("gpt2_nano", "tie_word_embeddings", false);
  refused("llama_tiny", "hidden_act", "gelu");
  refused("llama_tiny", "num_key_value_heads", 3);
  refused("llama_tiny", "attention_bias", 1);
  refused("qwen25_0_5b", "use_sliding_window", true);
  refused("qwen3_30b_a3b", "output_router_logits", "yes");
  refused("qwen3_30b_a3b", "router_aux_loss_coef", -0.1);
  refused("qwen3_30b_a3b", "num_experts_per_tok", 129);
  refused("qwen3_30b_a3b", "mlp_only_layers", nlohmann::json{0, -1});
  refused("qwen3_30b_a3b", "mlp_only_layers", 3);
  refused("mixtral_8x7b", "sliding_window", 4096);
  refused("mixtral_8x7b", "router_jitter_noise", 0.1);
  refused("mixtral_8x7b", "num_experts_per_tok", 9);
  refused("gemma2_2b", "attn_logit_softcapping", -1.0);
  refused("gemma2_2b", "final_logit_softcapping", "30");
  refused("gemma2_2b", "hidden_activation", "gelu");
  refused("gemma2_2b", "query_pre_attn_scalar", 0);
  refused("gemma2_2b", "rope_local_base_freq", 1e4);
  refused("gemma2_2b", "use_bidirectional_attention", true);
  refused("gemma3_1b", "attn_logit_softcapping", 50.0);
  refused("gemma3_1b", "final_logit_softcapping", 30.0);
  refused("gemma3_1b", "use_bidirectional_attention", true);
  refused("gemma3_1b", "hidden_activation", "gelu");
  refused("gemma3_1b", "query_pre_attn_scalar", 0);
  refused("gemma3_1b", "sliding_window_pattern", 0);
  refused("gemma3_1b", "layer_types", nlohmann::json{"full_attention"});
  refused("gemma3_1b", "layer_types", "full_attention");
  refused("gemma3_1b", "rope_local_base_freq", "1e4");
  refused("gemma3_1b", "rope_parameters", nlohmann::json{{"rope_theta", 1e6}});
  refused("llama_tiny", "rope_local_base_freq", 1e4);
  using Json = nlohmann::json;
  refused("llama_tiny", "rope_scaling", "linear");
  const auto refused_rope = [&](const char* key, const Json& rope) {
    SCOPED_TRACE(rope.dump());
    Json config = *PresetConfig("llama_tiny");
    for (const char* where : {"rope_scaling", "rope_parameters"}) {
      config["rope_parameters"] = nullptr;
      config[where] = rope;
      const absl::Status status = ModelRegistry::Create(config).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_NE(status.ToString().find(std::string(where) + "." + key), std::string::npos)
          << status;
    }
  };
  refused_rope("original_max_position_embeddings", Json{{"rope_type", "llama3"},
                                                        {"factor", 8.0},
                                                        {"low_freq_factor", 1.0},
                                                        {"high_freq_factor", 4.0}});
  refused_rope("factor", Json{{"rope_type", "linear"}});
  refused_rope("factor", Json{{"type", "linear"}, {"factor", 0}});
  refused_rope("rope_type", Json{{"rope_type", "dynamic"}, {"factor", 2.0}});
  refused_rope("short_factor", Json{{"type", "longrope"}, {"factor", 2.0}});
  refused_rope("rope_type", Json{{"rope_type", "mrope"}});
  refused_rope("attn_factor", Json{{"rope_type", "yarn"}, {"factor", 4}, {"attn_factor", 0.8}});
  refused_rope("short_factor", Json{{"rope_type", "yarn"}, {"factor", 4}, {"short_factor", {1}}});
  refused_rope("beta_fast", Json{{"rope_type", "yarn"}, {"beta_fast", 1.0}});
  refused_rope("partial_rotary_factor", Json{{"partial_rotary_factor", 0.5}});
  refused_rope("full_attention", Json{{"full_attention", {{"rope_type", "default"}}}});
}

// As in transformers: a window of 4096 and 8 heads of keys, unless the file says null.
TEST(PresetsTest, AMistralDistinguishesNullFromAbsence) {
  const nlohmann::json preset = *PresetConfig("mistral_7b");
  EXPECT_EQ(preset["sliding_window"], 4096);
  nlohmann::json config = preset;
  config["num_hidden_layers"] = 1;
  config.erase("sliding_window");
  config.erase("num_key_value_heads");
  const nlohmann::json absent = (*ModelRegistry::Create(config))->HfConfig();
  EXPECT_EQ(absent["sliding_window"], 4096);
  EXPECT_EQ(absent["num_key_value_heads"], 8);
  config["sliding_window"] = nullptr;
  config["num_key_value_heads"] = nullptr;
  const nlohmann::json null = (*ModelRegistry::Create(config))->HfConfig();
  ASSERT_TRUE(null.contains("sliding_window"));
  EXPECT_TRUE(null["sliding_window"].is_null());
  EXPECT_EQ(null["num_key_value_heads"], 32);
  const auto again = ModelRegistry::Create(null);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->HfConfig(), null);
}

// As in transformers: 32 heads of keys (16 of a Qwen2-MoE), unless the file says null.
TEST(PresetsTest, AQwenDistinguishesHeadsOfKeysThatAreNullFromAbsentOnes) {
  for (const char* type : {"qwen2", "qwen3", "dots1", "qwen2_moe"}) {
    SCOPED_TRACE(type);
    nlohmann::json config = {{"model_type", type},        {"vocab_size", 16},
                             {"hidden_size", 128},        {"intermediate_size", 8},
                             {"num_hidden_layers", 1},    {"num_attention_heads", 64},
                             {"moe_intermediate_size", 8}};
    if (type == std::string("dots1")) {
      config.update({{"n_routed_experts", 2}, {"n_shared_experts", 1}, {"num_experts_per_tok", 1}});
    } else if (type != std::string("qwen2_moe")) {
      config.erase("moe_intermediate_size");
    }
    const int64_t heads = type == std::string("qwen2_moe") ? 16 : 32;
    const auto absent = ModelRegistry::Create(config);
    ASSERT_TRUE(absent.ok()) << absent.status();
    EXPECT_EQ((*absent)->HfConfig()["num_key_value_heads"], heads);
    config["num_key_value_heads"] = nullptr;
    const auto null = ModelRegistry::Create(config);
    ASSERT_TRUE(null.ok()) << null.status();
    EXPECT_EQ((*null)->HfConfig()["num_key_value_heads"], 64);
  }
}

// 6 operations for each weight that multiplies a token, and half of attention's square.
TEST(PresetsTest, OperationsOfGpt2) {
  const absl::StatusOr<std::unique_ptr<LanguageModel>> model =
      ModelRegistry::Create(*PresetConfig("gpt2_124m"));
  ASSERT_TRUE(model.ok());
  const double weights = 12.0 * 12 * 768 * 768 + 50257.0 * 768;
  EXPECT_DOUBLE_EQ((*model)->FlopsPerToken(256), 6 * weights + 6.0 * 12 * 768 * 256);
}

// With a window of 16 in 64 tokens, the first 16 see 1, 2, .. tokens and the others 16.
TEST(PresetsTest, OperationsOfAWindow) {
  const auto flops_of = [](int64_t window) {
    nlohmann::json config = *PresetConfig("mistral_7b");
    config["num_hidden_layers"] = 2;
    config["sliding_window"] = window;
    const absl::StatusOr<std::unique_ptr<LanguageModel>> model = ModelRegistry::Create(config);
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->FlopsPerToken(64);
  };
  const double all = 2.0 * 4096 * 12 * 32;  // layers * width * 12 * half of the tokens
  const double seen = 16.0 - 16.0 * 16 / (2 * 64);
  EXPECT_NEAR(flops_of(64) - flops_of(16), all - 2.0 * 4096 * 12 * seen, 1.0);
  EXPECT_DOUBLE_EQ(flops_of(4096), flops_of(64));
}

// Every sixth layer attends to all tokens, as half of them do on average; the others see a window.
TEST(PresetsTest, OperationsOfWindowsInSomeLayers) {
  nlohmann::json config = *PresetConfig("gemma3_1b");
  config["num_hidden_layers"] = 7;
  const auto flops_with = [&](int64_t window) {
    config["sliding_window"] = window;
    const absl::StatusOr<std::unique_ptr<LanguageModel>> model = ModelRegistry::Create(config);
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->FlopsPerToken(64);
  };
  const double seen = 16.0 - 16.0 * 16 / (2 * 64);
  EXPECT_NEAR(flops_with(64) - flops_with(16), 6 * 1024 * 12 * (32.0 - seen), 1.0);
}

// Three of four layers have no attention. They multiply a token's vectors with each state three
// times, and the taps of the convolution.
TEST(PresetsTest, OperationsOfLinearAttention) {
  const nlohmann::json config = {{"model_type", "qwen3_5_text"},
                                 {"vocab_size", 100},
                                 {"hidden_size", 64},
                                 {"intermediate_size", 96},
                                 {"num_hidden_layers", 4},
                                 {"num_attention_heads", 4},
                                 {"num_key_value_heads", 2},
                                 {"head_dim", 32},
                                 {"linear_num_key_heads", 2},
                                 {"linear_num_value_heads", 4},
                                 {"linear_key_head_dim", 16},
                                 {"linear_value_head_dim", 8}};
  const absl::StatusOr<std::unique_ptr<LanguageModel>> model = ModelRegistry::Create(config);
  ASSERT_TRUE(model.ok()) << model.status();
  const double linear = 64.0 * (2 * 32 + 32 + 32 + 4 + 4 + 32);
  const double full = 64.0 * (2 * 128 + 64 + 64 + 128);
  const double weights = 3 * linear + full + 4 * 3.0 * 64 * 96 + 64.0 * 100;
  const double states = 3 * (3.0 * 4 * 16 * 8 + 4 * 96);
  EXPECT_DOUBLE_EQ((*model)->FlopsPerToken(256), 6 * (weights + states) + 6.0 * 128 * 256);
  const nlohmann::json written = (*model)->HfConfig();
  EXPECT_EQ(written["layer_types"], nlohmann::json({"linear_attention", "linear_attention",
                                                    "linear_attention", "full_attention"}));
  EXPECT_EQ((*ModelRegistry::Create(written))->HfConfig(), written);
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json other = config;
    other[key] = value;
    const absl::Status status = ModelRegistry::Create(other).status();
    EXPECT_NE(status.ToString().find(key), std::string::npos) << status;
  };
  refused("linear_num_key_heads", 3);
  refused("linear_key_head_dim", 257);
  refused("linear_conv_kernel_dim", 9);
  refused("attn_output_gate", false);
  refused("layer_types", nlohmann::json({"linear_attention", "sliding_attention",
                                         "linear_attention", "full_attention"}));
}

// As in transformers: caps of 50 and 30, and a window in the layers of even number, unless the file
// says otherwise.
TEST(PresetsTest, AGemma2HasCapsUnlessTheFileSaysNull) {
  nlohmann::json config = *PresetConfig("gemma2_2b");
  config["num_hidden_layers"] = 3;
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) config.erase(key);
  const nlohmann::json absent = (*ModelRegistry::Create(config))->HfConfig();
  EXPECT_EQ(absent["attn_logit_softcapping"], 50.0);
  EXPECT_EQ(absent["final_logit_softcapping"], 30.0);
  EXPECT_EQ(absent["layer_types"],
            nlohmann::json({"sliding_attention", "full_attention", "sliding_attention"}));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    config[key] = nullptr;
    const nlohmann::json null = (*ModelRegistry::Create(config))->HfConfig();
    ASSERT_TRUE(null.contains(key));
    EXPECT_TRUE(null[key].is_null()) << key;
    const auto again = ModelRegistry::Create(null);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->HfConfig(), null);
  }
}

TEST(PresetsTest, AVisionTowerIsRefused) {
  for (const char* type : {"gemma3", "qwen3_5"}) {
    const absl::Status status =
        ModelRegistry::Create({{"model_type", type}, {"text_config", {{"hidden_size", 8}}}})
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(status.ToString().find("vision tower"), std::string::npos) << status;
    EXPECT_NE(status.ToString().find(std::string(type) + "_text"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace zeroth
