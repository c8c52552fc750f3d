// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_convert.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/formats/hugging_face.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

HfDirectory OpenModel(const std::string& path) {
  auto model = HfDirectory::Open(path);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<GgufFile> OpenGguf(const std::string& path) {
  auto file = GgufFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

GgufExportOptions Options(GgufVocabularySource vocabulary) {
  GgufExportOptions options;
  options.vocabulary = vocabulary;
  return options;
}

// Both directories hold the same tensors, bit for bit.
void ExpectSameKeys(const HfDirectory& model, const HfDirectory& back,
                    const std::vector<const char*>& keys) {
  for (const char* const key : keys) {
    EXPECT_EQ(model.config().json()[key], back.config().json().value(key, Json())) << key;
  }
}

void ExpectSameWeights(const HfDirectory& a, const HfDirectory& b) {
  ASSERT_EQ(a.weights().names(), b.weights().names());
  for (const std::string& name : a.weights().names()) {
    const Shape shape = a.weights().Find(name)->shape;
    const auto left = a.weights().ReadAll(name, shape);
    const auto right = b.weights().ReadAll(name, shape);
    ASSERT_TRUE(left.ok() && right.ok()) << left.status() << right.status();
    EXPECT_EQ(*left, *right) << name;
  }
}

class RoundTripTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RoundTripTest, TheRecordedModelsComeBackBitForBit) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel(absl::StrCat("tests/testdata/", GetParam()));
  const std::string path = dir.File("model.gguf");
  const absl::Status exported = ConvertHfToGguf(model, path, Options(GgufVocabularySource::kByte));
  ASSERT_TRUE(exported.ok()) << exported;
  const auto file = OpenGguf(path);
  const auto notes = ConvertGgufToHf(*file, dir.File("back"));
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_TRUE(notes->empty());
  const HfDirectory back = OpenModel(dir.File("back"));
  ExpectSameWeights(model, back);
  // Everything that the format has a key for.
  for (const char* key : {"model_type",
                          "architectures",
                          "vocab_size",
                          "n_positions",
                          "n_embd",
                          "n_layer",
                          "n_head",
                          "n_inner",
                          "layer_norm_epsilon",
                          "activation_function",
                          "hidden_size",
                          "intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "head_dim",
                          "rms_norm_eps",
                          "max_position_embeddings",
                          "hidden_act",
                          "sliding_window",
                          "bos_token_id",
                          "eos_token_id",
                          "tie_word_embeddings",
                          "torch_dtype"}) {
    // Keys implied by others may come back although the file left them out.
    if (!model.config().Has(key)) continue;
    EXPECT_EQ(model.config().json().value(key, Json()), back.config().json().value(key, Json()))
        << key;
  }
  EXPECT_EQ(back.TokenizerFiles().size(), 2u) << "tokenizer.json, tokenizer_config.json";
}

INSTANTIATE_TEST_SUITE_P(Models, RoundTripTest,
                         ::testing::Values("gpt2_tiny", "llama_tiny", "mistral_tiny",
                                           "mixtral_tiny", "olmo2_tiny", "qwen2_tiny", "qwen3_tiny",
                                           "qwen3_moe_tiny", "gpt_oss_tiny"),
                         [](const auto& model) { return std::string(model.param); });

// A copy of a recorded model, with these keys.
HfDirectory ModelWith(const std::string& name, const TemporaryDirectory& dir, const Json& keys) {
  const std::string path = dir.File(name);
  const std::string original = absl::StrCat("tests/testdata/", name);
  std::filesystem::create_directory(path);
  std::filesystem::copy(original + "/model.safetensors", path,
                        std::filesystem::copy_options::overwrite_existing);
  Json config = OpenModel(original).config().json();
  config.update(keys);
  std::ofstream(path + "/config.json") << config.dump();
  return OpenModel(path);
}

HfDirectory GemmaWith(const TemporaryDirectory& dir, const Json& keys) {
  return ModelWith("gemma3_tiny", dir, keys);
}

// Its fused matrices stay fused. llama.cpp decides by its own context whether a longrope is long.
TEST(GgufConvertTest, APhiRotatesAPartOfAHead) {
  const TemporaryDirectory dir;
  const Json rope = {
      {"rope_type", "default"}, {"rope_theta", 5e4}, {"partial_rotary_factor", 0.75}};
  const HfDirectory model = ModelWith("phi3_tiny", dir, {{"rope_parameters", rope}});
  ASSERT_TRUE(
      ConvertHfToGguf(model, dir.File("m.gguf"), Options(GgufVocabularySource::kByte)).ok());
  const auto file = OpenGguf(dir.File("m.gguf"));
  const GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(*metadata.GetString("general.architecture"), "phi3");
  EXPECT_EQ(*metadata.GetInt("phi3.rope.dimension_count"), 6);
  EXPECT_EQ(*metadata.GetDouble("phi3.rope.freq_base"), 5e4);
  EXPECT_EQ(*metadata.GetInt("phi3.attention.sliding_window"), 24);
  EXPECT_EQ(*metadata.GetInt("phi3.attention.head_count_kv"), 2);
  const Shape gate_up({160, 48});
  EXPECT_EQ(*file->ReadAll("blk.1.ffn_up.weight", gate_up),
            *model.weights().ReadAll("model.layers.1.mlp.gate_up_proj.weight", gate_up));
  ASSERT_TRUE(ConvertGgufToHf(*file, dir.File("back")).ok());
  const HfDirectory back = OpenModel(dir.File("back"));
  ExpectSameWeights(model, back);
  ExpectSameKeys(
      model, back,
      {"model_type", "architectures", "hidden_size", "num_attention_heads", "num_key_value_heads",
       "num_hidden_layers", "intermediate_size", "rms_norm_eps", "max_position_embeddings",
       "sliding_window", "vocab_size", "tie_word_embeddings"});
  EXPECT_EQ(back.config().json()["partial_rotary_factor"], 0.75);
  EXPECT_EQ(back.config().json()["rope_theta"], 5e4);
  EXPECT_FALSE(back.config().Has("head_dim"));
  const absl::Status refused =
      GgufMetadataOf(OpenModel("tests/testdata/phi3_tiny").config()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("rope_type \"longrope\""));
}

HfDirectory Gemma2With(const TemporaryDirectory& dir, const Json& keys) {
  return ModelWith("gemma2_tiny", dir, keys);
}

TEST(GgufConvertTest, AGemma2KeepsItsCaps) {
  const TemporaryDirectory dir;
  const HfDirectory model = Gemma2With(dir, {{"query_pre_attn_scalar", 8}});
  const absl::Status exported =
      ConvertHfToGguf(model, dir.File("m.gguf"), Options(GgufVocabularySource::kByte));
  ASSERT_TRUE(exported.ok()) << exported;
  const auto file = OpenGguf(dir.File("m.gguf"));
  const GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(*metadata.GetString("general.architecture"), "gemma2");
  EXPECT_EQ(*metadata.GetDouble("gemma2.attn_logit_softcapping"), 1.5);
  EXPECT_EQ(*metadata.GetDouble("gemma2.final_logit_softcapping"), static_cast<double>(0.8f));
  EXPECT_EQ(*metadata.GetInt("gemma2.attention.sliding_window"), 12);
  EXPECT_EQ(*metadata.GetInt("gemma2.attention.key_length"), 8);
  EXPECT_EQ(*metadata.GetDouble("gemma2.rope.freq_base"), 1e4);
  const Shape vector({24});
  std::vector<float> weights =
      *model.weights().ReadAll("model.layers.1.post_feedforward_layernorm.weight", vector);
  for (float& weight : weights) weight += 1.0f;
  EXPECT_EQ(*file->ReadAll("blk.1.post_ffw_norm.weight", vector), weights);

  const auto notes = ConvertGgufToHf(*file, dir.File("back"));
  ASSERT_TRUE(notes.ok()) << notes.status();
  const HfDirectory back = OpenModel(dir.File("back"));
  ExpectSameWeights(model, back);  // its norms are multiples of 2^-12
  ExpectSameKeys(model, back,
                 {"model_type", "architectures", "hidden_activation", "hidden_size", "head_dim",
                  "num_attention_heads", "num_key_value_heads", "num_hidden_layers",
                  "intermediate_size", "rms_norm_eps", "max_position_embeddings", "sliding_window",
                  "query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping",
                  "vocab_size", "tie_word_embeddings", "eos_token_id"});
  EXPECT_EQ(back.config().json()["rope_theta"], 1e4);
}

TEST(GgufConvertTest, AGemma2ThatLlamaCppComputesOtherwiseIsRefused) {
  const TemporaryDirectory dir;
  const Json full = {"full_attention", "full_attention", "full_attention"};
  const Json changes = {{"query_pre_attn_scalar", 12},
                        {"hidden_activation", "gelu"},
                        {"attn_logit_softcapping", nullptr},
                        {"final_logit_softcapping", nullptr},
                        {"sliding_window", nullptr},
                        {"layer_types", full},
                        {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}};
  for (const auto& [key, value] : changes.items()) {
    Json keys = {{"query_pre_attn_scalar", 8}};
    keys[key] = value;
    const absl::Status status = GgufMetadataOf(Gemma2With(dir, keys).config()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << key << status;
    EXPECT_THAT(status.message(), HasSubstr(key));
  }
}

// llama.cpp scales scores by the head size, which is 8.
const Json kGgufGemma = {{"query_pre_attn_scalar", 8}};

TEST(GgufConvertTest, GemmaHasOneMoreInItsNorms) {
  const TemporaryDirectory dir;
  const HfDirectory model = GemmaWith(dir, kGgufGemma);
  const absl::Status exported =
      ConvertHfToGguf(model, dir.File("m.gguf"), Options(GgufVocabularySource::kByte));
  ASSERT_TRUE(exported.ok()) << exported;
  const auto file = OpenGguf(dir.File("m.gguf"));
  const GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(*metadata.GetString("general.architecture"), "gemma3");
  EXPECT_EQ(*metadata.GetInt("gemma3.attention.key_length"), 8);
  EXPECT_EQ(*metadata.GetInt("gemma3.attention.head_count_kv"), 2);
  EXPECT_EQ(*metadata.GetInt("gemma3.attention.sliding_window"), 12);
  EXPECT_EQ(*metadata.GetDouble("gemma3.rope.freq_base"), 1e6);
  EXPECT_EQ(*metadata.GetString("gemma3.rope.scaling.type"), "linear");
  EXPECT_EQ(*metadata.GetDouble("gemma3.rope.scaling.factor"), 4.0);
  const Shape vector({24});
  std::vector<float> weights =
      *model.weights().ReadAll("model.layers.1.pre_feedforward_layernorm.weight", vector);
  for (float& weight : weights) weight += 1.0f;
  EXPECT_EQ(*file->ReadAll("blk.1.ffn_norm.weight", vector), weights);

  const auto notes = ConvertGgufToHf(*file, dir.File("back"));
  ASSERT_TRUE(notes.ok()) << notes.status();
  const HfDirectory back = OpenModel(dir.File("back"));
  ExpectSameWeights(model, back);  // its norms are multiples of 2^-12
  ExpectSameKeys(model, back,
                 {"model_type", "architectures", "hidden_activation", "hidden_size", "head_dim",
                  "num_key_value_heads", "num_hidden_layers", "intermediate_size", "rms_norm_eps",
                  "max_position_embeddings", "sliding_window", "query_pre_attn_scalar",
                  "vocab_size", "tie_word_embeddings", "eos_token_id"});
  const Json& config = back.config().json();
  EXPECT_EQ(config["sliding_window_pattern"], 6);
  EXPECT_EQ(config["rope_theta"], 1e6);
  EXPECT_EQ(config["rope_local_base_freq"], 1e4);
  EXPECT_EQ(config["rope_scaling"], Json({{"rope_type", "linear"}, {"factor", 4.0}}));
  // The older keys of rotary positions convert, too.
  ASSERT_TRUE(ConvertHfToGguf(back, dir.File("n.gguf"), Options(GgufVocabularySource::kByte)).ok());
  const auto again = OpenGguf(dir.File("n.gguf"));
  EXPECT_EQ(*again->metadata().GetDouble("gemma3.rope.freq_base"), 1e6);
  EXPECT_EQ(*again->metadata().GetDouble("gemma3.rope.scaling.factor"), 4.0);
}

TEST(GgufConvertTest, AGemmaThatLlamaCppComputesOtherwiseIsRefused) {
  const TemporaryDirectory dir;
  const Json types = OpenModel("tests/testdata/gemma3_tiny").config().json()["layer_types"];
  Json all_local = types;
  all_local[5] = "sliding_attention";
  const auto rope = [](double theta, const char* type) {
    return Json{{"sliding_attention", {{"rope_type", "default"}, {"rope_theta", theta}}},
                {"full_attention", {{"rope_type", type}, {"factor", 4.0}}}};
  };
  const Json changes = {{"query_pre_attn_scalar", 12},    {"hidden_activation", "gelu"},
                        {"attn_logit_softcapping", 50.0}, {"use_bidirectional_attention", true},
                        {"sliding_window", nullptr},      {"layer_types", all_local}};
  for (const auto& [key, value] : changes.items()) {
    Json keys = kGgufGemma;
    keys[key] = value;
    const absl::Status status = GgufMetadataOf(GemmaWith(dir, keys).config()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << key << status;
    EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("\"", key, "\"")));
  }
  for (const Json& parameters : {rope(2e4, "linear"), rope(1e4, "yarn")}) {
    Json keys = kGgufGemma;
    keys["rope_parameters"] = parameters;
    const absl::Status status = GgufMetadataOf(GemmaWith(dir, keys).config()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << parameters << status;
    EXPECT_THAT(status.message(), HasSubstr("rope_"));
  }
}

TEST(GgufConvertTest, Gpt2KeysAndTransposedMatrices) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel("tests/testdata/gpt2_tiny");
  GgufExportOptions options = Options(GgufVocabularySource::kByte);
  options.name = "tiny";
  ASSERT_TRUE(ConvertHfToGguf(model, dir.File("m.gguf"), options).ok());
  const auto file = OpenGguf(dir.File("m.gguf"));
  const GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(*metadata.GetString("general.architecture"), "gpt2");
  EXPECT_EQ(*metadata.GetString("general.name"), "tiny");
  EXPECT_EQ(*metadata.GetInt("general.file_type"), 0);
  EXPECT_EQ(*metadata.GetInt("gpt2.context_length"), 64);
  EXPECT_EQ(*metadata.GetInt("gpt2.embedding_length"), 60);
  EXPECT_EQ(*metadata.GetInt("gpt2.feed_forward_length"), 240);
  EXPECT_EQ(*metadata.GetInt("gpt2.block_count"), 3);
  EXPECT_EQ(*metadata.GetInt("gpt2.attention.head_count"), 4);
  EXPECT_EQ(*metadata.GetDouble("gpt2.attention.layer_norm_epsilon"), static_cast<double>(1e-5f));
  EXPECT_EQ((*metadata.GetStrings("tokenizer.ggml.tokens"))->size(), 257u);
  EXPECT_EQ((**metadata.GetStrings("tokenizer.ggml.tokens"))[' '], "\xc4\xa0");
  EXPECT_EQ(*metadata.GetInt("tokenizer.ggml.eos_token_id"), 256);
  EXPECT_EQ(file->Find("output.weight"), nullptr) << "tied";
  const auto stored = file->ReadAll("blk.1.attn_qkv.weight", {180, 60});
  const auto original = model.weights().ReadAll("transformer.h.1.attn.c_attn.weight", {60, 180});
  ASSERT_TRUE(stored.ok() && original.ok()) << stored.status() << original.status();
  for (size_t out = 0; out < 180; ++out) {
    for (size_t in = 0; in < 60; ++in) {
      ASSERT_EQ((*stored)[out * 60 + in], (*original)[in * 180 + out]);
    }
  }
}

TEST(GgufConvertTest, LlamaKeysAndRotaryRows) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel("tests/testdata/llama_tiny");
  ASSERT_TRUE(
      ConvertHfToGguf(model, dir.File("m.gguf"), Options(GgufVocabularySource::kNone)).ok());
  const auto file = OpenGguf(dir.File("m.gguf"));
  const GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(*metadata.GetString("tokenizer.ggml.model"), "none");
  EXPECT_EQ(*metadata.GetInt("llama.vocab_size"), 257);
  EXPECT_EQ(*metadata.GetInt("llama.attention.head_count"), 6);
  EXPECT_EQ(*metadata.GetInt("llama.attention.head_count_kv"), 2);
  EXPECT_EQ(*metadata.GetInt("llama.rope.dimension_count"), 10);
  EXPECT_EQ(*metadata.GetDouble("llama.rope.freq_base"), 10000.0);
  EXPECT_EQ(*metadata.GetDouble("llama.attention.layer_norm_rms_epsilon"),
            static_cast<double>(1e-5f));
  // Hugging Face rotates (i, i + d/2), llama.cpp (2i, 2i + 1): row 2i + s of a head is row i + 5s.
  for (const auto& [gguf, hf, heads] :
       {std::tuple("blk.2.attn_q.weight", "model.layers.2.self_attn.q_proj.weight", size_t{6}),
        std::tuple("blk.0.attn_k.weight", "model.layers.0.self_attn.k_proj.weight", size_t{2})}) {
    const Shape shape = {static_cast<int64_t>(heads) * 10, 60};
    const auto stored = file->ReadAll(gguf, shape);
    const auto original = model.weights().ReadAll(hf, shape);
    ASSERT_TRUE(stored.ok() && original.ok()) << stored.status() << original.status();
    for (size_t head = 0; head < heads; ++head) {
      for (size_t i = 0; i < 5; ++i) {
        for (size_t side = 0; side < 2; ++side) {
          for (size_t column = 0; column < 60; ++column) {
            ASSERT_EQ((*stored)[(head * 10 + 2 * i + side) * 60 + column],
                      (*original)[(head * 10 + i + 5 * side) * 60 + column]);
          }
        }
      }
    }
  }
}

// llama.cpp requires the experts of a block in one tensor, [experts, out, in], and the router in
// F32.
TEST(GgufConvertTest, ExpertsAreStacked) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel("tests/testdata/qwen3_moe_tiny");
  GgufExportOptions options = Options(GgufVocabularySource::kNone);
  options.dtype = DType::kBFloat16;
  ASSERT_TRUE(ConvertHfToGguf(model, dir.File("b.gguf"), options).ok());
  EXPECT_EQ(OpenGguf(dir.File("b.gguf"))->Find("blk.0.ffn_gate_inp.weight")->dtype,
            SafetensorsDType::kF32);
  EXPECT_EQ(OpenGguf(dir.File("b.gguf"))->Find("blk.0.ffn_up_exps.weight")->dtype,
            SafetensorsDType::kBF16);
  options.dtype = std::nullopt;
  ASSERT_TRUE(ConvertHfToGguf(model, dir.File("m.gguf"), options).ok());
  const auto file = OpenGguf(dir.File("m.gguf"));
  const GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(*metadata.GetString("general.architecture"), "qwen3moe");
  EXPECT_EQ(*metadata.GetInt("qwen3moe.expert_count"), 8);
  EXPECT_EQ(*metadata.GetInt("qwen3moe.expert_used_count"), 2);
  EXPECT_EQ(*metadata.GetInt("qwen3moe.expert_feed_forward_length"), 40);
  EXPECT_EQ(*metadata.GetInt("qwen3moe.feed_forward_length"), 96);
  const auto router = file->ReadAll("blk.1.ffn_gate_inp.weight", {8, 48});
  EXPECT_EQ(*router, *model.weights().ReadAll("model.layers.1.mlp.gate.weight", {8, 48}));
  for (const auto& [gguf, hf, rows, columns] :
       {std::tuple("gate", "gate_proj", 40, 48), std::tuple("up", "up_proj", 40, 48),
        std::tuple("down", "down_proj", 48, 40)}) {
    const auto stored =
        file->ReadAll(absl::StrCat("blk.1.ffn_", gguf, "_exps.weight"), {8, rows, columns});
    ASSERT_TRUE(stored.ok()) << stored.status();
    std::vector<float> expected;
    for (int expert = 0; expert < 8; ++expert) {
      const auto one = model.weights().ReadAll(
          absl::StrCat("model.layers.1.mlp.experts.", expert, ".", hf, ".weight"), {rows, columns});
      ASSERT_TRUE(one.ok()) << one.status();
      expected.insert(expected.end(), one->begin(), one->end());
    }
    EXPECT_EQ(*stored, expected) << gguf;
  }
  ASSERT_TRUE(ConvertGgufToHf(*file, dir.File("back")).ok());
  const HfConfig config = OpenModel(dir.File("back")).config();
  EXPECT_EQ(*config.GetInt("num_experts"), 8);
  EXPECT_EQ(*config.GetInt("num_experts_per_tok"), 2);
  EXPECT_EQ(*config.GetInt("moe_intermediate_size"), 40);
  EXPECT_EQ(*config.GetBool("norm_topk_prob"), true);
}

// llama.cpp's qwen3moe has experts in every block, and weights that sum to one.
TEST(GgufConvertTest, MixturesThatLlamaCppComputesOtherwiseAreRefused) {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir.File("model"));
  std::filesystem::copy_file("tests/testdata/qwen3_moe_tiny/model.safetensors",
                             dir.File("model/model.safetensors"));
  const Json original = OpenModel("tests/testdata/qwen3_moe_tiny").config().json();
  for (const auto& [key, value, message] :
       {std::tuple("mlp_only_layers", Json{1}, "key \"mlp_only_layers\" is [1], expected []"),
        std::tuple("decoder_sparse_step", Json(2), "key \"decoder_sparse_step\" is 2, expected 1"),
        std::tuple("norm_topk_prob", Json(false), "key \"norm_topk_prob\" is false"),
        std::tuple("num_local_experts", Json(7), "experts.7.down_proj.weight\" is of expert 7"),
        std::tuple("num_local_experts", Json(9), "found no number 8")}) {
    Json config = original;
    config[key] = value;
    dir.Write("model/config.json", config.dump());
    const absl::Status refused = ConvertHfToGguf(OpenModel(dir.File("model")), dir.File("m.gguf"),
                                                 Options(GgufVocabularySource::kNone));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(message)) << key;
    EXPECT_FALSE(std::filesystem::exists(dir.File("m.gguf")));
  }
}

std::vector<float> All(const WeightsSource& source, const std::string& name) {
  const auto shape = source.ShapeOf(name);
  EXPECT_TRUE(shape.ok()) << shape.status();
  const auto values = shape.ok() ? source.ReadAll(name, *shape) : shape.status();
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *values : std::vector<float>();
}

// The keys and names are those of llama.cpp's converter.
TEST(GgufConvertTest, AGptOssHasSinksAndBiasesOfExperts) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel("tests/testdata/gpt_oss_tiny");
  GgufExportOptions options = Options(GgufVocabularySource::kNone);
  options.dtype = DType::kBFloat16;
  ASSERT_TRUE(ConvertHfToGguf(model, dir.File("m.gguf"), options).ok());
  const auto file = OpenGguf(dir.File("m.gguf"));
  const GgufMetadata& metadata = file->metadata();
  EXPECT_EQ(*metadata.GetString("general.architecture"), "gpt-oss");
  for (const auto& [key, value] :
       {std::pair("expert_count", 6), std::pair("expert_used_count", 2),
        std::pair("expert_feed_forward_length", 16), std::pair("feed_forward_length", 16),
        std::pair("attention.sliding_window", 12), std::pair("attention.key_length", 8),
        std::pair("rope.scaling.original_context_length", 32)}) {
    EXPECT_EQ(*metadata.GetInt(absl::StrCat("gpt-oss.", key)), value) << key;
  }
  EXPECT_EQ(*metadata.GetString("gpt-oss.rope.scaling.type"), "yarn");
  for (const auto& [key, value] : {std::pair("factor", 4.0), std::pair("yarn_beta_fast", 4.0),
                                   std::pair("yarn_beta_slow", 1.0)}) {
    EXPECT_EQ(*metadata.GetDouble(absl::StrCat("gpt-oss.rope.scaling.", key)), value) << key;
  }
  // ggml adds vectors in F32 alone.
  for (const char* name : {"attn_sinks.weight", "ffn_gate_inp.weight", "ffn_gate_inp.bias",
                           "post_attention_norm.weight", "ffn_up_exps.bias"}) {
    EXPECT_EQ(file->Find(absl::StrCat("blk.2.", name))->dtype, SafetensorsDType::kF32) << name;
  }
  EXPECT_EQ(file->Find("blk.2.ffn_up_exps.weight")->dtype, SafetensorsDType::kBF16);
  EXPECT_EQ(All(*file, "blk.1.attn_sinks.weight"),
            All(model.weights(), "model.layers.1.self_attn.sinks"));
  EXPECT_EQ(file->Find("blk.1.ffn_down_exps.bias")->shape, Shape({6, 24}));
  const std::vector<float> biases = All(*file, "blk.1.ffn_down_exps.bias");
  EXPECT_EQ(std::vector<float>(biases.begin() + 5 * 24, biases.end()),
            All(model.weights(), "model.layers.1.mlp.experts.5.down_proj.bias"));
  ASSERT_TRUE(ConvertGgufToHf(*file, dir.File("back")).ok());
  const HfConfig config = OpenModel(dir.File("back")).config();
  const Json& rope = model.config().json().at("rope_parameters");
  for (const auto& [key, value] : config.json().at("rope_scaling").items()) {
    EXPECT_EQ(value, rope.at(key)) << key;
  }
  EXPECT_EQ(*config.GetDouble("rope_theta"), rope.at("rope_theta"));
  ExpectSameKeys(model, OpenModel(dir.File("back")),
                 {"sliding_window", "layer_types", "num_local_experts", "num_experts_per_tok",
                  "attention_bias", "head_dim", "intermediate_size"});
  for (const GgufMix mix : {GgufMix::kQ8_0, GgufMix::kQ4_K_M}) {
    options.mix = mix;
    const absl::Status quantised = ConvertHfToGguf(model, dir.File("q.gguf"), options);
    EXPECT_TRUE(quantised.ok()) << quantised;
  }
}

TEST(GgufConvertTest, AGptOssThatLlamaCppComputesOtherwiseIsRefused) {
  const TemporaryDirectory dir;
  Json scaled = OpenModel("tests/testdata/gpt_oss_tiny").config().json().at("rope_parameters");
  Json slow = scaled;
  slow["beta_slow"] = 0.05;
  scaled["attention_factor"] = 1.5;
  for (const auto& [keys, message] :
       {std::pair(Json{{"sliding_window", nullptr}}, "\"sliding_window\" is null"),
        std::pair(Json{{"layer_types", {"full_attention", "full_attention", "full_attention"}}},
                  "key \"layer_types\" is"),
        std::pair(Json{{"swiglu_limit", 6.0}}, "key \"swiglu_limit\" is 6.0, expected 7.0"),
        std::pair(Json{{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}}},
                  "expected \"yarn\""),
        std::pair(Json{{"rope_parameters", scaled}}, "attention_factor\" is 1.5"),
        std::pair(Json{{"rope_parameters", slow}}, "beta_slow 0.05, expected 32 and 1"),
        std::pair(Json{{"num_local_experts", 5}}, "is of expert 5")}) {
    const absl::Status refused =
        ConvertHfToGguf(ModelWith("gpt_oss_tiny", dir, keys), dir.File("m.gguf"),
                        Options(GgufVocabularySource::kNone));
    EXPECT_THAT(std::string(refused.message()), HasSubstr(message));
  }
}

// llama.cpp has no separate Mistral. One without a window is a Llama in Hugging Face as well.
TEST(GgufConvertTest, AMistralIsALlamaWithAWindow) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel("tests/testdata/mistral_tiny");
  ASSERT_TRUE(
      ConvertHfToGguf(model, dir.File("m.gguf"), Options(GgufVocabularySource::kNone)).ok());
  const auto file = OpenGguf(dir.File("m.gguf"));
  EXPECT_EQ(*file->metadata().GetString("general.architecture"), "llama");
  EXPECT_EQ(*file->metadata().GetInt("llama.attention.sliding_window"), 12);
  Json config = model.config().json();
  config["sliding_window"] = nullptr;
  std::filesystem::create_directory(dir.File("global"));
  std::filesystem::copy_file("tests/testdata/mistral_tiny/model.safetensors",
                             dir.File("global/model.safetensors"));
  dir.Write("global/config.json", config.dump());
  const HfDirectory global = OpenModel(dir.File("global"));
  ASSERT_TRUE(
      ConvertHfToGguf(global, dir.File("g.gguf"), Options(GgufVocabularySource::kNone)).ok());
  const auto without = OpenGguf(dir.File("g.gguf"));
  EXPECT_FALSE(without->metadata().Has("llama.attention.sliding_window"));
  ASSERT_TRUE(ConvertGgufToHf(*without, dir.File("back")).ok());
  EXPECT_EQ(*OpenModel(dir.File("back")).config().GetString("model_type"), "llama");
  // transformers' default is a window of 4096.
  config.erase("sliding_window");
  dir.Write("global/config.json", config.dump());
  ASSERT_TRUE(ConvertHfToGguf(OpenModel(dir.File("global")), dir.File("d.gguf"),
                              Options(GgufVocabularySource::kNone))
                  .ok());
  const auto by_default = OpenGguf(dir.File("d.gguf"));
  EXPECT_EQ(*by_default->metadata().GetInt("llama.attention.sliding_window"), 4096);
}

// llama.cpp rotates the halves of a head in these families, as Hugging Face does.
TEST(GgufConvertTest, RotaryRowsOfOtherFamiliesStay) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel("tests/testdata/qwen2_tiny");
  ASSERT_TRUE(
      ConvertHfToGguf(model, dir.File("m.gguf"), Options(GgufVocabularySource::kNone)).ok());
  const auto file = OpenGguf(dir.File("m.gguf"));
  EXPECT_EQ(*file->ReadAll("blk.1.attn_q.weight", {60, 60}),
            *model.weights().ReadAll("model.layers.1.self_attn.q_proj.weight", {60, 60}));
  EXPECT_EQ(*file->ReadAll("blk.1.attn_k.bias", {20}),
            *model.weights().ReadAll("model.layers.1.self_attn.k_proj.bias", {20}));
}

TEST(GgufConvertTest, SixteenBitTypesSpareVectorsAndPositions) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel("tests/testdata/gpt2_tiny");
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    GgufExportOptions options = Options(GgufVocabularySource::kByte);
    options.dtype = dtype;
    ASSERT_TRUE(ConvertHfToGguf(model, dir.File("m.gguf"), options).ok());
    const auto file = OpenGguf(dir.File("m.gguf"));
    EXPECT_EQ(*file->metadata().GetInt("general.file_type"), dtype == DType::kFloat16 ? 1 : 32);
    EXPECT_EQ(file->Find("token_embd.weight")->dtype, ToSafetensorsDType(dtype));
    EXPECT_EQ(file->Find("blk.0.ffn_up.weight")->dtype, ToSafetensorsDType(dtype));
    EXPECT_EQ(file->Find("blk.0.ffn_up.bias")->dtype, SafetensorsDType::kF32);
    EXPECT_EQ(file->Find("position_embd.weight")->dtype, SafetensorsDType::kF32);
    // And back: matrices rounded once, the rest as they were.
    ASSERT_TRUE(ConvertGgufToHf(*file, dir.File("back")).ok());
    const HfDirectory back = OpenModel(dir.File("back"));
    EXPECT_EQ(*back.config().GetString("torch_dtype"),
              dtype == DType::kFloat16 ? "float16" : "bfloat16");
    for (const std::string& name : model.weights().names()) {
      const Shape shape = model.weights().Find(name)->shape;
      const auto original = model.weights().ReadAll(name, shape);
      const auto copied = back.weights().ReadAll(name, shape);
      ASSERT_TRUE(original.ok() && copied.ok());
      const bool rounded = back.weights().Find(name)->dtype != SafetensorsDType::kF32;
      EXPECT_EQ(rounded, shape.rank() == 2 && name != "transformer.wpe.weight") << name;
      for (size_t i = 0; i < original->size(); ++i) {
        const float exact = (*original)[i];
        const float expected = !rounded                   ? exact
                               : dtype == DType::kFloat16 ? ToFloat(ToFloat16(exact))
                                                          : ToFloat(ToBFloat16(exact));
        ASSERT_EQ((*copied)[i], expected) << name;
      }
    }
  }
}

// A model of one small block in memory, as a directory.
class SmallModelTest : public ::testing::Test {
 protected:
  static Json LlamaConfig() {
    return {
        {"model_type", "llama"},         {"hidden_size", 16},        {"intermediate_size", 4},
        {"num_hidden_layers", 1},        {"num_attention_heads", 2}, {"vocab_size", 5},
        {"max_position_embeddings", 32}, {"rope_theta", 500000.0},   {"tie_word_embeddings", true}};
  }

  static std::vector<TensorDeclaration> LlamaTensors() {
    const std::string layer = "model.layers.0.";
    return {{"model.embed_tokens.weight", DType::kBFloat16, {5, 16}},
            {"model.norm.weight", DType::kBFloat16, {16}},
            {layer + "input_layernorm.weight", DType::kBFloat16, {16}},
            {layer + "post_attention_layernorm.weight", DType::kBFloat16, {16}},
            {layer + "self_attn.q_proj.weight", DType::kBFloat16, {16, 16}},
            {layer + "self_attn.k_proj.weight", DType::kBFloat16, {16, 16}},
            {layer + "self_attn.v_proj.weight", DType::kBFloat16, {16, 16}},
            {layer + "self_attn.o_proj.weight", DType::kBFloat16, {16, 16}},
            {layer + "mlp.gate_proj.weight", DType::kBFloat16, {4, 16}},
            {layer + "mlp.up_proj.weight", DType::kBFloat16, {4, 16}},
            {layer + "mlp.down_proj.weight", DType::kBFloat16, {16, 4}}};
  }

  HfDirectory Write(const Json& config, const std::vector<TensorDeclaration>& tensors) {
    const std::string path = dir_.File("model");
    auto writer =
        HfDirectoryWriter::Create(path, *HfConfig::Parse(config.dump(), "config.json"), tensors);
    EXPECT_TRUE(writer.ok()) << writer.status();
    for (const TensorDeclaration& tensor : tensors) {
      std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
      for (float& value : values) value = static_cast<float>(next_++ % 128) / 64;
      EXPECT_TRUE((*writer)->Write(tensor.name, 0, values).ok());
    }
    EXPECT_TRUE((*writer)->Finish().ok());
    return OpenModel(path);
  }

  std::string Gguf() const { return dir_.File("m.gguf"); }

  absl::Status Export(const Json& config, const std::vector<TensorDeclaration>& tensors) {
    return ConvertHfToGguf(Write(config, tensors), Gguf(), Options(GgufVocabularySource::kNone));
  }

  TemporaryDirectory dir_;
  int64_t next_ = 0;
};

TEST_F(SmallModelTest, Llama3ScalingBecomesFactorsAndComesBack) {
  Json config = LlamaConfig();
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 32.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  const absl::Status exported = Export(config, LlamaTensors());
  ASSERT_TRUE(exported.ok()) << exported;
  const auto file = OpenGguf(Gguf());
  const auto factors = file->ReadAll("rope_freqs.weight", {4});
  ASSERT_TRUE(factors.ok()) << factors.status();
  // Wave lengths 2 pi 500000^(i/4): 6.28, 167, 4443, 118132. The first two are short, the last
  // long; the third turns 8192 / 4443 = 1.84382 times, so (1.84382 - 1) / 3 = 0.281273 of the way.
  EXPECT_EQ((*factors)[0], 1.0f);
  EXPECT_EQ((*factors)[1], 1.0f);
  EXPECT_NEAR((*factors)[2], 1.0 / ((1 - 0.281273) / 32 + 0.281273), 1e-3);
  EXPECT_EQ((*factors)[3], 32.0f);
  ASSERT_TRUE(ConvertGgufToHf(*file, dir_.File("back")).ok());
  const HfDirectory back = OpenModel(dir_.File("back"));
  EXPECT_EQ(back.config().json()["rope_scaling"], config["rope_scaling"]);
  EXPECT_EQ(*back.config().GetBool("tie_word_embeddings"), true);
  ExpectSameWeights(OpenModel(dir_.File("model")), back);
  // The original context may be beside the object; it must not differ from the object's.
  const char* const original = "original_max_position_embeddings";
  config["rope_scaling"].erase(original);
  config[original] = 4096;
  ASSERT_TRUE(Export(config, LlamaTensors()).ok());
  const auto beside = OpenGguf(Gguf())->ReadAll("rope_freqs.weight", {4});
  EXPECT_EQ((*beside)[2], 32.0f) << "4096 / 4443 turns";
  config["rope_scaling"][original] = 8192;
  EXPECT_THAT(
      std::string(Export(config, LlamaTensors()).message()),
      HasSubstr("\"rope_scaling.original_max_position_embeddings\" is 8192, expected 4096"));
}

TEST_F(SmallModelTest, TwoObjectsOfRopeMustAgree) {
  Json config = LlamaConfig();
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 300.0}};
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  const absl::Status same = Export(config, LlamaTensors());
  ASSERT_TRUE(same.ok()) << same;
  EXPECT_EQ(*OpenGguf(Gguf())->metadata().GetDouble("llama.rope.scaling.factor"), 2.0);
  EXPECT_EQ(*OpenGguf(Gguf())->metadata().GetDouble("llama.rope.freq_base"), 300.0);
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 300.0}};
  EXPECT_THAT(std::string(Export(config, LlamaTensors()).message()),
              HasSubstr("\"rope_parameters\" and \"rope_scaling\" say different things"));
}

TEST_F(SmallModelTest, LinearScalingComesBackAndOthersAreRefused) {
  Json config = LlamaConfig();
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.5}};
  ASSERT_TRUE(Export(config, LlamaTensors()).ok());
  ASSERT_TRUE(ConvertGgufToHf(*OpenGguf(Gguf()), dir_.File("back")).ok());
  EXPECT_EQ(OpenModel(dir_.File("back")).config().json()["rope_scaling"],
            (Json{{"rope_type", "linear"}, {"factor", 2.5}}));
  config["rope_scaling"] = {{"rope_type", "llama3"}, {"factor", 2.5}};
  config["model_type"] = "qwen2";  // whose factors llama.cpp would not read
  EXPECT_THAT(std::string(Export(config, LlamaTensors()).message()), HasSubstr("in a Llama"));
  config["model_type"] = "llama";
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 2.5}};
  const absl::Status refused = Export(config, LlamaTensors());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("rope_type \"yarn\""));
}

TEST_F(SmallModelTest, ScalingWithoutATypeIsLinear) {
  ASSERT_TRUE(Export(LlamaConfig(), LlamaTensors()).ok());
  const GgufMetadata metadata = OpenGguf(Gguf())->metadata();
  const auto scaling = [](const GgufMetadata& changed) {
    const auto config = HfConfigOf(changed, {});
    EXPECT_TRUE(config.ok()) << config.status();
    return config->json().value("rope_scaling", Json());
  };
  EXPECT_EQ(scaling(metadata), Json());
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    GgufMetadata changed = metadata;
    changed.SetFloat(key, 2.5f);
    EXPECT_EQ(scaling(changed), (Json{{"rope_type", "linear"}, {"factor", 2.5}})) << key;
    HfConfigFacts llama3;
    llama3.rope.emplace();
    EXPECT_THAT(std::string(HfConfigOf(changed, llama3).status().message()),
                HasSubstr("is 2.5, expected 1 beside rope_freqs.weight"));
    changed.SetString("llama.rope.scaling.type", "none");
    EXPECT_EQ(scaling(changed), Json()) << key;
    changed = metadata;
    changed.SetFloat(key, 0.0f);
    EXPECT_EQ(scaling(changed), Json()) << key;
  }
  GgufMetadata both = metadata;
  both.SetFloat("llama.rope.scaling.factor", 4.0f);
  both.SetFloat("llama.rope.scale_linear", 2.5f);
  EXPECT_EQ(scaling(both)["factor"], 4.0);
}

TEST_F(SmallModelTest, RefusesWhatWouldLoadNowhere) {
  const auto message = [&](const Json& config, const std::vector<TensorDeclaration>& tensors) {
    const absl::Status status = Export(config, tensors);
    return status.ok() ? "accepted" : std::string(status.message());
  };
  const auto changed = [](const char* key, const Json& value) {
    Json config = LlamaConfig();
    config[key] = value;
    return config;
  };
  EXPECT_EQ(message(LlamaConfig(), LlamaTensors()), "accepted");
  EXPECT_THAT(message(changed("model_type", "mamba"), LlamaTensors()),
              HasSubstr("\"mamba\"; there are mappings for gpt2, llama"));
  EXPECT_THAT(message(changed("hidden_act", "gelu"), LlamaTensors()),
              HasSubstr("key \"hidden_act\" is \"gelu\", expected \"silu\""));
  EXPECT_THAT(message(changed("num_hidden_layers", 2), LlamaTensors()),
              HasSubstr("no tensor \"model.layers.1.input_layernorm.weight\""));
  EXPECT_THAT(message(changed("num_hidden_layers", -1), LlamaTensors()),
              HasSubstr("llama.block_count would be -1"));
  EXPECT_THAT(message(changed("num_attention_heads", 0), LlamaTensors()),
              HasSubstr("llama.attention.head_count would be 0"));
  EXPECT_THAT(message(changed("num_key_value_heads", 3), LlamaTensors()),
              HasSubstr("3 attention heads divide"));
  EXPECT_THAT(message(changed("tie_word_embeddings", false), LlamaTensors()),
              HasSubstr("no tensor \"lm_head.weight\""));
  std::vector<TensorDeclaration> more = LlamaTensors();
  more.push_back({"model.layers.0.mlp.router.weight", DType::kFloat32, {1}});
  EXPECT_THAT(message(LlamaConfig(), more), HasSubstr("router.weight\" is none that"));
  std::vector<TensorDeclaration> frequencies = LlamaTensors();
  frequencies.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", DType::kFloat32, {4}});
  EXPECT_EQ(message(LlamaConfig(), frequencies), "accepted");
  const absl::Status no_tokenizer = ConvertHfToGguf(Write(LlamaConfig(), LlamaTensors()), Gguf());
  EXPECT_THAT(std::string(no_tokenizer.message()), HasSubstr("has no tokenizer.json"));
  Json outside = LlamaConfig();
  outside["vocab_size"] = 300;
  outside["eos_token_id"] = 300;
  const absl::Status too_small = ConvertHfToGguf(Write(LlamaConfig(), LlamaTensors()), Gguf(),
                                                 Options(GgufVocabularySource::kByte));
  EXPECT_THAT(std::string(too_small.message()), HasSubstr("257 tokens, the model embeds 5"));
  const absl::Status no_such_end =
      ConvertHfToGguf(Write(outside, LlamaTensors()), Gguf(), Options(GgufVocabularySource::kByte));
  EXPECT_THAT(std::string(no_such_end.message()), HasSubstr("ends a text is 300"));
}

TEST_F(SmallModelTest, BiasesOfProjectionsComeBack) {
  std::vector<TensorDeclaration> tensors = LlamaTensors();
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    tensors.push_back(
        {absl::StrCat("model.layers.0.self_attn.", name, ".bias"), DType::kFloat32, {16}});
  }
  Json config = LlamaConfig();
  config["attention_bias"] = true;
  const absl::Status exported = Export(config, tensors);
  ASSERT_TRUE(exported.ok()) << exported;
  ASSERT_TRUE(ConvertGgufToHf(*OpenGguf(Gguf()), dir_.File("back")).ok());
  const HfDirectory back = OpenModel(dir_.File("back"));
  EXPECT_EQ(*back.config().GetBool("attention_bias"), true);
  EXPECT_EQ(*back.config().GetBool("mlp_bias"), false);
  ExpectSameWeights(OpenModel(dir_.File("model")), back);
}

// As in transformers: 8 without the key, and as many as heads with null.
TEST_F(SmallModelTest, KeyHeadsOfAMistral) {
  Json config = LlamaConfig();
  config["model_type"] = "mistral";
  config["num_attention_heads"] = 16;
  config["head_dim"] = 2;
  const auto key_heads = [&](int64_t rows) {
    std::vector<TensorDeclaration> tensors = LlamaTensors();
    for (TensorDeclaration& tensor : tensors) {
      const auto is = [&](const char* name) { return absl::StrContains(tensor.name, name); };
      if (is("q_proj")) tensor.shape = Shape({32, 16});
      if (is("o_proj")) tensor.shape = Shape({16, 32});
      if (is("k_proj") || is("v_proj")) tensor.shape = Shape({rows, 16});
    }
    const absl::Status exported = Export(config, tensors);
    EXPECT_TRUE(exported.ok()) << exported;
    return *OpenGguf(Gguf())->metadata().GetInt("llama.attention.head_count_kv");
  };
  EXPECT_EQ(key_heads(16), 8);
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(key_heads(32), 16);
}

TEST_F(SmallModelTest, OfSeveralEndsTheFirstIsTaken) {
  Json config = LlamaConfig();
  config["vocab_size"] = 300;
  config["bos_token_id"] = 2;
  config["eos_token_id"] = {7, 8};
  ASSERT_TRUE(
      ConvertHfToGguf(Write(config, LlamaTensors()), Gguf(), Options(GgufVocabularySource::kByte))
          .ok());
  EXPECT_EQ(*OpenGguf(Gguf())->metadata().GetInt("tokenizer.ggml.bos_token_id"), 2);
  EXPECT_EQ(*OpenGguf(Gguf())->metadata().GetInt("tokenizer.ggml.eos_token_id"), 7);
}

// llama.cpp ends texts at the token 11, a comma, if the file names none.
TEST_F(SmallModelTest, TheEndOfATextComesFromTheTokenizerThenTheConfigs) {
  const auto end = [&](const char* generation, const Json& config_id,
                       const char* tokenizer = "{}") {
    Json config = LlamaConfig();
    if (!config_id.is_null()) config["eos_token_id"] = config_id;
    const HfDirectory model = Write(config, LlamaTensors());
    dir_.Write("model/vocab.json", R"({"a": 0, "b": 1, "</s>": 2, "ab": 3, "</t>": 4})");
    dir_.Write("model/merges.txt", "a b\n");
    dir_.Write("model/generation_config.json", generation);
    dir_.Write("model/tokenizer_config.json", tokenizer);
    const absl::Status status = ConvertHfToGguf(model, Gguf());
    if (!status.ok()) return std::string(status.message());
    return std::to_string(*OpenGguf(Gguf())->metadata().GetInt("tokenizer.ggml.eos_token_id"));
  };
  EXPECT_THAT(end("{}", Json()), HasSubstr("no token that ends a text"));
  EXPECT_EQ(end(R"({"eos_token_id": [4, 2]})", Json()), "4");
  EXPECT_EQ(end(R"({"eos_token_id": 4})", 3), "3");
  EXPECT_EQ(end(R"({"eos_token_id": 4})", 3, R"({"eos_token": "</s>"})"), "2");
}

TEST_F(SmallModelTest, TheTemplateOfConversationsGoesWithTheVocabulary) {
  const HfDirectory model = Write(LlamaConfig(), LlamaTensors());
  dir_.Write("model/vocab.json", R"({"a": 0, "b": 1, "c": 2, "ab": 3, "<|endoftext|>": 4})");
  dir_.Write("model/merges.txt", "#version: 0.2\na b\n");
  const absl::Status without = ConvertHfToGguf(model, Gguf());
  ASSERT_TRUE(without.ok()) << without;
  EXPECT_FALSE(OpenGguf(Gguf())->metadata().Has("tokenizer.chat_template"));
  dir_.Write("model/tokenizer_config.json", R"({"chat_template": "{{ \"\n\" }}"})");
  ASSERT_TRUE(ConvertHfToGguf(model, Gguf()).ok());
  const auto file = OpenGguf(Gguf());
  EXPECT_EQ(*file->metadata().GetString("tokenizer.chat_template"), "{{ \"\n\" }}");
  ASSERT_TRUE(ConvertGgufToHf(*file, dir_.File("back")).ok());
  EXPECT_EQ(ReadHfChatTemplate(dir_.File("back"))->jinja, "{{ \"\n\" }}");
  ASSERT_TRUE(ConvertHfToGguf(model, Gguf(), Options(GgufVocabularySource::kNone)).ok());
  EXPECT_FALSE(OpenGguf(Gguf())->metadata().Has("tokenizer.chat_template"));
}

TEST_F(SmallModelTest, APartOfAModelIsRefused) {
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "llama");
  metadata.SetUint32("llama.attention.head_count", 1);
  metadata.Set("split.count", uint16_t{3});
  auto writer = GgufWriter::Create(Gguf(), metadata, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto notes = ConvertGgufToHf(*OpenGguf(Gguf()), dir_.File("back"));
  EXPECT_THAT(std::string(notes.status().message()), HasSubstr("one of 3 parts"));
}

TEST_F(SmallModelTest, AHeadThatRepeatsTheEmbeddingIsTheEmbedding) {
  // Older exporters wrote the head of GPT-2, too. It is kept if it differs from the embedding.
  for (const float last : {1.0f, 2.0f}) {
    GgufMetadata metadata;
    metadata.SetString("general.architecture", "gpt2");
    for (const char* key : {"context_length", "embedding_length", "block_count",
                            "attention.head_count", "feed_forward_length"}) {
      metadata.SetUint32(absl::StrCat("gpt2.", key), 1);
    }
    metadata.SetFloat("gpt2.attention.layer_norm_epsilon", 1e-5f);
    std::vector<TensorDeclaration> tensors;
    for (const char* name : {"token_embd", "position_embd", "output", "blk.0.attn_qkv",
                             "blk.0.attn_output", "blk.0.ffn_up", "blk.0.ffn_down"}) {
      tensors.push_back({absl::StrCat(name, ".weight"), DType::kFloat32, {1, 1}});
    }
    for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) {
      tensors.push_back({absl::StrCat(name, ".weight"), DType::kFloat32, {1}});
    }
    auto writer = GgufWriter::Create(Gguf(), metadata, tensors);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const TensorDeclaration& tensor : tensors) {
      const std::vector<float> value = {tensor.name == "output.weight" ? last : 1.0f};
      ASSERT_TRUE((*writer)->Write(tensor.name, 0, value).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    const auto notes = ConvertGgufToHf(*OpenGguf(Gguf()), dir_.File("back"));
    ASSERT_TRUE(notes.ok()) << notes.status();
    const HfDirectory back = OpenModel(dir_.File("back"));
    EXPECT_EQ(*back.config().GetBool("tie_word_embeddings"), last == 1.0f);
    EXPECT_EQ(back.weights().Find("lm_head.weight") == nullptr, last == 1.0f);
    EXPECT_EQ(*back.config().GetInt("vocab_size"), 1) << "from the embedding";
  }
}

}  // namespace
}  // namespace zeroth
