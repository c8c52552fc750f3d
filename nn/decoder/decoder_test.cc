// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/decoder/decoder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/nn/decoder/decoder_family.h"
#include "zeroth/nn/decoder/rope_config.h"
#include "zeroth/nn/testing/gradient_check.h"

namespace zeroth {
namespace {

// A custom family: Llama's computation with biases.
DecoderFamily Biased() {
  DecoderFamily family = LlamaLikeFamily("biased", "BiasedForCausalLM");
  family.base.qkv_bias = true;
  return family;
}

nlohmann::json SmallConfig() {
  return {{"vocab_size", 13},        {"max_position_embeddings", 9}, {"hidden_size", 8},
          {"intermediate_size", 10}, {"num_hidden_layers", 2},       {"num_attention_heads", 4},
          {"num_key_value_heads", 2}};
}

std::unique_ptr<LanguageModel> Build(const DecoderFamily& family, const nlohmann::json& config) {
  absl::StatusOr<std::unique_ptr<LanguageModel>> model =
      BuildDecoder(family, config, ModelOptions());
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// Compares the gradients of a block's parameters and of its input with finite differences of the
// block. `scale` multiplies the parameters: a norm behind a matmul is far from linear where its
// input is small.
void CheckBlock(const DecoderFamily& family, float scale) {
  const std::unique_ptr<LanguageModel> model = Build(family, SmallConfig());
  auto* block = dynamic_cast<DecoderBlock*>(model->children()[1]);
  ASSERT_NE(block, nullptr);
  testing::Bench bench;
  const std::vector<Parameter*> parameters = block->Parameters();
  for (Parameter* parameter : parameters) bench.Own(*parameter, scale);
  testing::CheckGradients(bench, {Shape({2, 3, 8})}, parameters,
                          [&](Context& context, const std::vector<Value>& in) {
                            return block->Forward(context, in[0]);
                          });
}

TEST(DecoderTest, AFamilyIsATable) {
  const std::unique_ptr<LanguageModel> model = Build(Biased(), SmallConfig());
  std::vector<std::string> names;
  for (const Parameter* parameter : model->Parameters()) names.push_back(parameter->name());
  ASSERT_EQ(names.size(), 2u + 2 * 12 + 1);
  EXPECT_EQ(names[0], "lm_head.weight");
  EXPECT_EQ(names[1], "model.embed_tokens.weight");
  EXPECT_EQ(names[3], "model.layers.0.self_attn.q_proj.weight");
  EXPECT_EQ(names[4], "model.layers.0.self_attn.q_proj.bias");
  EXPECT_EQ(names[9], "model.layers.0.self_attn.o_proj.weight");
  EXPECT_EQ(names[10], "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(names.back(), "model.norm.weight");
  EXPECT_EQ(model->HfConfig()["num_key_value_heads"], 2);
  EXPECT_EQ(model->HfConfig()["rope_theta"], 10000.0);
  EXPECT_EQ(Build(Biased(), model->HfConfig())->HfConfig(), model->HfConfig());
  CheckBlock(Biased(), 0.3f);
}

TEST(DecoderTest, OtherFlagsHaveTheRightGradientsToo) {
  DecoderFamily family = Biased();
  DecoderConfig& base = family.base;
  constexpr float kScale = 0.7f;
  base.norm = NormKind::kLayer;
  base.norm_placement = DecoderConfig::NormPlacement::kAfter;
  CheckBlock(family, kScale);
  base.names.qkv = {"qkv_proj"};
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.names.mlp_in = {"gate_up_proj"};
  base.layout = WeightLayout::kInOut;
  base.attention_out_bias = base.mlp_in_bias = base.mlp_out_bias = true;
  CheckBlock(family, kScale);
  base.qk_norm_over_all_heads = true;
  CheckBlock(family, kScale);
  base.gated = false;
  for (const ActivationFunction activation :
       {ActivationFunction::kGelu, ActivationFunction::kSilu, ActivationFunction::kTanh}) {
    base.activation = activation;
    CheckBlock(family, kScale);
  }
  base.gated = true;
  CheckBlock(family, kScale);
}

// How far the first block's output moves if the weights of these projections are all tripled.
double MovesWithTripled(const DecoderFamily& family, const std::set<std::string>& projections) {
  const std::unique_ptr<LanguageModel> model = Build(family, SmallConfig());
  auto* block = dynamic_cast<DecoderBlock*>(model->children()[1]);
  testing::Bench bench;
  bench.tape.set_recording(false);
  for (Parameter* parameter : block->Parameters()) bench.Own(*parameter);
  Value x;
  x.data = bench.Upload(Shape({2, 3, 8}), bench.Draw(2 * 3 * 8));
  const std::vector<float> before = *block->Forward(*bench.context, x)->data.ToHost<float>();
  for (Parameter* parameter : block->Parameters()) {
    for (const std::string& projection : projections) {
      if (parameter->name().find(projection + ".weight") == std::string::npos) continue;
      EXPECT_TRUE(kernels::Scale(*bench.kernels, parameter->data(), 3.0f).ok());
    }
  }
  const std::vector<float> after = *block->Forward(*bench.context, x)->data.ToHost<float>();
  double moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    moved = std::max(moved, static_cast<double>(std::abs(after[i] - before[i])));
  }
  return moved;
}

// A norm removes the scale of its input, which shows where norms are.
TEST(DecoderTest, NormsAreWhereTheFamilyHasThem) {
  DecoderFamily family = Biased();
  family.base.qkv_bias = false;
  EXPECT_GT(MovesWithTripled(family, {"q_proj"}), 0.1);
  EXPECT_GT(MovesWithTripled(family, {"o_proj", "down_proj"}), 0.1);
  family.base.names.q_norm = "q_norm";
  family.base.names.k_norm = "k_norm";
  EXPECT_LT(MovesWithTripled(family, {"q_proj", "k_proj"}), 2e-3);
  EXPECT_GT(MovesWithTripled(family, {"v_proj"}), 0.1);
  family.base.qk_norm_over_all_heads = true;
  EXPECT_LT(MovesWithTripled(family, {"q_proj", "k_proj"}), 2e-3);
  family.base.norm_placement = DecoderConfig::NormPlacement::kAfter;
  EXPECT_LT(MovesWithTripled(family, {"o_proj", "down_proj"}), 2e-3);
}

// Norms before and after, scaled by 1 + weight, and scores that are not scaled by the head's size.
TEST(DecoderTest, AGemmaHasTheRightGradientsToo) {
  DecoderFamily family = Biased();
  DecoderConfig& base = family.base;
  base.norm = NormKind::kRmsPlusOne;
  base.norm_placement = DecoderConfig::NormPlacement::kBoth;
  base.names.attention_out_norm = "attention_out_norm";
  base.names.mlp_out_norm = "mlp_out_norm";
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.query_scalar = 5;
  base.activation = ActivationFunction::kGelu;
  base.mixes_windows = true;
  base.window = 2;
  base.window_pattern = 2;
  CheckBlock(family, 0.7f);
  EXPECT_LT(MovesWithTripled(family, {"o_proj", "down_proj"}), 2e-3);
}

// A custom family with linear attention in layers, and attention with gates in every
// window_pattern-th.
DecoderFamily Linear() {
  DecoderFamily family = LlamaLikeFamily("linear", "LinearForCausalLM");
  DecoderConfig& base = family.base;
  base.names.q_norm = "q_norm";
  base.names.k_norm = "k_norm";
  base.names.linear_attention = "linear_attn";
  base.names.linear_qkv = "in_proj_qkv";
  base.names.linear_z = "in_proj_z";
  base.names.linear_b = "in_proj_b";
  base.names.linear_a = "in_proj_a";
  base.names.linear_out = "out_proj";
  // A head's first outputs may be nearly zero, where a norm with a small eps bends sharply.
  base.norm_eps = 0.1;
  base.gated_attention = true;
  base.mixes_linear = true;
  base.linear_taps = 3;
  base.linear_key_heads = 1;
  base.linear_value_heads = 2;
  base.linear_key_dim = 4;
  base.linear_value_dim = 3;
  return family;
}

TEST(DecoderTest, LinearAttentionAndGatesHaveTheRightGradients) {
  DecoderFamily family = Linear();
  // The first block is of the first kind for 2, and of the second for 1.
  for (const int64_t interval : {2, 1}) {
    family.base.window_pattern = interval;
    CheckBlock(family, 0.4f);
  }
}

// Neither the convolution nor the state reads another document.
TEST(DecoderTest, LinearAttentionComputesDocumentsAsIfAlone) {
  DecoderFamily family = Linear();
  family.base.window_pattern = 2;
  const std::unique_ptr<LanguageModel> model = Build(family, SmallConfig());
  auto* block = dynamic_cast<DecoderBlock*>(model->children()[1]);
  testing::Bench bench;
  bench.tape.set_recording(false);
  for (Parameter* parameter : block->Parameters()) bench.Own(*parameter);
  const std::vector<float> x = bench.Draw(9 * 8);
  const auto run = [&](int64_t begin, int64_t end) {
    Value in;
    in.data = bench.Upload(Shape({1, end - begin, 8}),
                           std::vector<float>(x.begin() + begin * 8, x.begin() + end * 8));
    return *block->Forward(*bench.context, in)->data.ToHost<float>();
  };
  const std::vector<float> together = run(0, 9);
  std::vector<float> apart = run(0, 4);
  const std::vector<float> second = run(4, 9);
  apart.insert(apart.end(), second.begin(), second.end());
  const std::vector<int32_t> starts = {0, 0, 0, 0, 4, 4, 4, 4, 4};
  bench.context->set_document_starts(*Tensor::FromHost<int32_t>(
      *bench.device, Shape({1, 9}), starts, MemoryCategory::kActivations));
  const std::vector<float> packed = run(0, 9);
  ASSERT_EQ(packed.size(), apart.size());
  double moved = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    EXPECT_NEAR(packed[i], apart[i], 1e-5) << i;
    moved = std::max(moved, static_cast<double>(std::abs(packed[i] - together[i])));
  }
  EXPECT_GT(moved, 1e-2);  // without documents the second reads the first
}

// Muon splits a fused matrix at the widths at which tensor ranks divide it.
TEST(DecoderTest, LinearAttentionAndGatesAreDividedByHeads) {
  DecoderFamily family = Linear();
  family.base.window_pattern = 2;
  family.base.names.qkv = {"qkv_proj"};
  family.base.linear_key_heads = 2;
  family.base.linear_value_heads = 4;
  const std::unique_ptr<LanguageModel> model = Build(family, SmallConfig());
  const absl::Status divided = DivideModel(*model, {.size = 2}, 1);
  ASSERT_TRUE(divided.ok()) << divided;
  int fused = 0;
  for (const Parameter* parameter : model->Parameters()) {
    if (absl::StrContains(parameter->name(), "qkv")) {
      ++fused;
      EXPECT_EQ(parameter->part()->sections, parameter->matrix().parts) << parameter->name();
    }
    if (!absl::EndsWith(parameter->name(), "conv1d.weight")) continue;
    std::vector<int64_t> channels;  // of queries, keys and values: [4, 8), [12, 16), [22, 28)
    for (const ElementRun& run : parameter->GlobalRuns(0, parameter->numel())) {
      for (int64_t i = 0; i < run.numel; i += 3) channels.push_back((run.global_begin + i) / 3);
    }
    EXPECT_EQ(channels, std::vector<int64_t>({4, 5, 6, 7, 12, 13, 14, 15, 22, 23, 24, 25, 26, 27}));
  }
  EXPECT_EQ(fused, 2);
  const absl::Status refused = DivideModel(*Build(family, SmallConfig()), {.size = 4}, 0);
  EXPECT_EQ(refused.message(),
            "parameter 'model.layers.0.linear_attn.conv1d.weight': 2 heads cannot be divided among "
            "4 tensor ranks; expected a divisor of 2");
}

// A model computes the same for packed documents as for each alone, and a token attends no further
// back than its window.
TEST(DecoderTest, PackedDocumentsAndWindows) {
  DecoderFamily family = Biased();
  family.keys.push_back({"sliding_window", &DecoderConfig::window});
  nlohmann::json config = SmallConfig();
  config["sliding_window"] = 3;
  const std::unique_ptr<LanguageModel> model = Build(family, config);
  EXPECT_EQ(model->HfConfig()["sliding_window"], 3);
  auto* block = dynamic_cast<DecoderBlock*>(model->children()[1]);
  testing::Bench bench;
  bench.tape.set_recording(false);
  for (Parameter* parameter : block->Parameters()) bench.Own(*parameter);
  std::vector<float> x = bench.Draw(9 * 8);
  const auto run = [&](int64_t begin, int64_t end) {
    Value in;
    in.data = bench.Upload(Shape({1, end - begin, 8}),
                           std::vector<float>(x.begin() + begin * 8, x.begin() + end * 8));
    return *block->Forward(*bench.context, in)->data.ToHost<float>();
  };
  std::vector<float> apart = run(0, 4);
  const std::vector<float> second = run(4, 9);
  apart.insert(apart.end(), second.begin(), second.end());
  const std::vector<int32_t> starts = {0, 0, 0, 0, 4, 4, 4, 4, 4};
  bench.context->set_document_starts(*Tensor::FromHost<int32_t>(
      *bench.device, Shape({1, 9}), starts, MemoryCategory::kActivations));
  const std::vector<float> packed = run(0, 9);
  ASSERT_EQ(packed.size(), apart.size());
  for (size_t i = 0; i < packed.size(); ++i) EXPECT_NEAR(packed[i], apart[i], 1e-5) << i;
  bench.context->set_document_starts(Tensor());
  const std::vector<float> before = run(0, 9);
  for (int i = 0; i < 8; ++i) x[static_cast<size_t>(i)] += 1.0f;  // the first token
  const std::vector<float> after = run(0, 9);
  EXPECT_TRUE(std::equal(before.begin() + 3 * 8, before.end(), after.begin() + 3 * 8));
  EXPECT_FALSE(std::equal(before.begin() + 2 * 8, before.begin() + 3 * 8, after.begin() + 2 * 8));
}

// The keys of rotary positions are written as they were read, old or new.
TEST(DecoderTest, RopeIsExportedInTheWordsThatItCameIn) {
  const nlohmann::json yarn = {{"rope_type", "yarn"},
                               {"factor", 4.0},
                               {"original_max_position_embeddings", 4},
                               {"beta_fast", 16},
                               {"truncate", false}};
  nlohmann::json old_words = SmallConfig();
  old_words["rope_theta"] = 500.0;
  old_words["rope_scaling"] = yarn;
  nlohmann::json written = Build(Biased(), old_words)->HfConfig();
  EXPECT_EQ(written["rope_theta"], 500.0);
  EXPECT_EQ(written["rope_scaling"], yarn);
  EXPECT_FALSE(written.contains("rope_parameters"));

  nlohmann::json new_words = SmallConfig();
  new_words["rope_parameters"] = yarn;
  new_words["rope_parameters"]["rope_theta"] = 500.0;
  written = Build(Biased(), new_words)->HfConfig();
  EXPECT_EQ(written["rope_parameters"], new_words["rope_parameters"]);
  EXPECT_FALSE(written.contains("rope_theta"));
  EXPECT_FALSE(written.contains("rope_scaling"));
}

// A file may have both objects of rotary positions, as long as they agree.
TEST(DecoderTest, TwoObjectsOfRopeMustAgree) {
  const nlohmann::json yarn = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 4}};
  nlohmann::json same = yarn;
  same.erase("rope_type");
  same["type"] = "yarn";
  same["factor"] = 4;
  same["beta_fast"] = nullptr;
  nlohmann::json config = SmallConfig();
  config["rope_parameters"] = yarn;
  config["rope_parameters"]["rope_theta"] = 500.0;
  config["rope_scaling"] = same;
  const nlohmann::json written = Build(Biased(), config)->HfConfig();
  EXPECT_EQ(written["rope_parameters"], config["rope_parameters"]);
  EXPECT_EQ(written["rope_scaling"], same);
  EXPECT_EQ(Build(Biased(), written)->HfConfig(), written);
  EXPECT_EQ(ReadRope(config, {}, 9)->theta, 500.0);
  config["rope_parameters"].erase("rope_theta");
  config["rope_scaling"]["rope_theta"] = 300.0;
  EXPECT_EQ(ReadRope(config, {}, 9)->theta, 300.0);

  // A user may add YaRN to a config.json of transformers 5.
  const auto refused = [&](const nlohmann::json& parameters) {
    config["rope_parameters"] = parameters;
    const std::string message = ReadRope(config, {}, 9).status().ToString();
    EXPECT_NE(message.find("'rope_scaling' is {"), std::string::npos) << message;
    EXPECT_NE(message.find("what 'rope_parameters' says"), std::string::npos) << message;
  };
  refused({{"rope_type", "default"}, {"rope_theta", 300.0}});
  refused(nlohmann::json::object());
  nlohmann::json other_theta = yarn;
  other_theta["rope_theta"] = 500.0;
  refused(other_theta);
  config["rope_scaling"] = nlohmann::json::object();
  config["rope_parameters"] = {{"type", "default"}};
  EXPECT_TRUE(ReadRope(config, {}, 9).ok());
}

TEST(DecoderTest, TheOriginalPositionsMayStandBesideTheObject) {
  const char* const kOriginal = "original_max_position_embeddings";
  for (const nlohmann::json& scaling : {nlohmann::json{{"rope_type", "yarn"}, {"factor", 4.0}},
                                        nlohmann::json{{"rope_type", "llama3"},
                                                       {"factor", 4.0},
                                                       {"low_freq_factor", 1.0},
                                                       {"high_freq_factor", 4.0}}}) {
    SCOPED_TRACE(scaling.dump());
    nlohmann::json config = SmallConfig();
    config["rope_scaling"] = scaling;
    config[kOriginal] = 4;
    const RopeSpec beside = *ReadRope(config, {}, 9);
    EXPECT_EQ(beside.original_context, 4);
    const nlohmann::json written = Build(Biased(), config)->HfConfig();
    EXPECT_EQ(*ReadRope(written, {}, 9), beside) << written;
    config["rope_scaling"][kOriginal] = 4;
    EXPECT_EQ(*ReadRope(config, {}, 9), beside);
    config["rope_scaling"][kOriginal] = 5;
    const std::string message = ReadRope(config, {}, 9).status().ToString();
    EXPECT_NE(message.find("'rope_scaling.original_max_position_embeddings' is 5, expected 4"),
              std::string::npos)
        << message;
  }
}

TEST(DecoderTest, SizesThatDoNotFitAreNamedByTheirKeys) {
  nlohmann::json config = SmallConfig();
  config["num_key_value_heads"] = 3;
  const absl::Status status = BuildDecoder(Biased(), config, ModelOptions()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("'num_key_value_heads' is 3"), std::string::npos) << status;
  EXPECT_NE(status.ToString().find("num_attention_heads = 4"), std::string::npos) << status;
}

}  // namespace
}  // namespace zeroth
