// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_adapter.h"
#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/gguf/gguf_model.h"
#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/packed_blocks.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kModel[] = "tests/testdata/qwen3_5_gguf";
constexpr char kLinear[] = "model.layers.0.linear_attn.";

HfDirectory OpenModel(const std::string& path) {
  auto model = HfDirectory::Open(path);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<GgufFile> Exported(const std::string& path, std::optional<GgufMix> mix = {}) {
  GgufExportOptions options;
  options.vocabulary = GgufVocabularySource::kByte;
  options.mix = mix;
  const absl::Status exported = ConvertHfToGguf(OpenModel(kModel), path, options);
  EXPECT_TRUE(exported.ok()) << exported;
  auto file = GgufFile::Open(path);
  EXPECT_TRUE(mix || file.ok()) << file.status();
  return file.ok() ? *std::move(file) : nullptr;
}

std::vector<float> Read(const WeightsSource& weights, const std::string& name) {
  const SafetensorsEntry* const entry = weights.Find(name);
  EXPECT_NE(entry, nullptr) << name;
  return entry == nullptr ? std::vector<float>() : *weights.ReadAll(name, entry->shape);
}

// All tensors have equal bits, except A_log. The file has its exponential, whose relative error of
// 2^-24 is an absolute error of 2^-24 in the logarithm, which is then rounded again.
void ExpectSameModel(const WeightsSource& weights, const WeightsSource& back) {
  ASSERT_EQ(weights.names(), back.names());
  for (const std::string& name : weights.names()) {
    ASSERT_EQ(weights.Find(name)->shape, back.Find(name)->shape) << name;
    const std::vector<float> expected = Read(weights, name);
    const std::vector<float> found = Read(back, name);
    if (!absl::EndsWith(name, "A_log")) {
      EXPECT_EQ(found, expected) << name;
      continue;
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 6.1e-8f * (1 + std::abs(expected[i]))) << name;
    }
  }
}

// Shapes and values by name.
using Tensors = std::map<std::string, std::pair<Shape, std::vector<float>>>;

Tensors TensorsOf(const WeightsSource& weights) {
  Tensors tensors;
  for (const std::string& name : weights.names()) {
    tensors[name] = {weights.Find(name)->shape, Read(weights, name)};
  }
  return tensors;
}

std::unique_ptr<GgufFile> Written(const std::string& path, const GgufMetadata& metadata,
                                  const Tensors& tensors) {
  std::vector<TensorDeclaration> declared;
  for (const auto& [name, tensor] : tensors) {
    declared.push_back({name, DType::kFloat32, tensor.first});
  }
  auto writer = GgufWriter::Create(path, metadata, declared);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE((*writer)->Write(name, 0, tensor.second).ok());
  }
  EXPECT_TRUE((*writer)->Finish().ok());
  auto file = GgufFile::Open(path);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

absl::StatusOr<GgufMetadata> MetadataWith(const Json& changes) {
  Json config = OpenModel(kModel).config().json();
  config.update(changes);
  return GgufMetadataOf(*HfConfig::Parse(config.dump(), "config.json"));
}

void ExpectUnimplemented(const absl::StatusOr<GgufMetadata>& metadata, const std::string& message) {
  EXPECT_EQ(metadata.status().code(), absl::StatusCode::kUnimplemented) << metadata.status();
  EXPECT_THAT(std::string(metadata.status().message()), HasSubstr(message));
}

TEST(GgufQwen35Test, ComesBack) {
  const TemporaryDirectory dir;
  const auto file = Exported(dir.File("m.gguf"));
  const auto notes = ConvertGgufToHf(*file, dir.File("back"));
  ASSERT_TRUE(notes.ok()) << notes.status();
  const HfDirectory model = OpenModel(kModel);
  const HfDirectory back = OpenModel(dir.File("back"));
  ExpectSameModel(model.weights(), back.weights());
  for (const auto& [key, value] : model.config().json().items()) {
    if (key == "attention_dropout" || key == "dtype" || key == "initializer_range") continue;
    EXPECT_EQ(back.config().json().value(key, Json()), value) << key;
  }
  // As the trainer reads the file.
  const auto read = OpenGgufModel(dir.File("m.gguf"));
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSameModel(model.weights(), read->weights());
  // The last two columns of a head, and the first of the next.
  std::vector<float> three(3);
  ASSERT_TRUE(read->weights()
                  .ReadElements(absl::StrCat(kLinear, "out_proj.weight"), 30, absl::MakeSpan(three))
                  .ok());
  const std::vector<float> all = Read(model.weights(), absl::StrCat(kLinear, "out_proj.weight"));
  EXPECT_EQ(three, (std::vector<float>{all[30], all[31], all[32]}));
}

// Six value heads of two key heads: 0 1 2 | 3 4 5 becomes 0 3 1 4 2 5.
TEST(GgufQwen35Test, ValueHeadsAreTiled) {
  const TemporaryDirectory dir;
  const auto file = Exported(dir.File("m.gguf"));
  const HfDirectory model = OpenModel(kModel);
  const size_t order[] = {0, 3, 1, 4, 2, 5};
  const auto hf = [&](const char* name) {
    return Read(model.weights(), absl::StrCat(kLinear, name));
  };
  const std::vector<float> decays = hf("A_log");
  const std::vector<float> biases = hf("dt_bias");
  const std::vector<float> qkv = hf("in_proj_qkv.weight");
  const std::vector<float> out = hf("out_proj.weight");
  const std::vector<float> found_decays = Read(*file, "blk.0.ssm_a");
  const std::vector<float> found_biases = Read(*file, "blk.0.ssm_dt.bias");
  const std::vector<float> found_qkv = Read(*file, "blk.0.attn_qkv.weight");
  const std::vector<float> found_out = Read(*file, "blk.0.ssm_out.weight");
  EXPECT_EQ(file->Find("blk.0.ssm_conv1d.weight")->shape, Shape({160, 4}));
  for (size_t head = 0; head < 6; ++head) {
    EXPECT_FLOAT_EQ(found_decays[head], -std::exp(decays[order[head]]));
    EXPECT_EQ(found_biases[head], biases[order[head]]);
    // Behind 64 rows of queries and keys, each head has 16; a row has 32 elements, or 96.
    EXPECT_EQ(found_qkv[(64 + 16 * head + 1) * 32 + 7], qkv[(64 + 16 * order[head] + 1) * 32 + 7]);
    EXPECT_EQ(found_out[5 * 96 + 16 * head + 2], out[5 * 96 + 16 * order[head] + 2]);
  }
  EXPECT_EQ(found_qkv[63 * 32], qkv[63 * 32]);
}

// Whole rows can be reordered as blocks. A head's columns are less than a block, so the matrix with
// reordered columns is read in full precision.
TEST(GgufQwen35Test, RowsOfBlocksMoveAndColumnsAreDecoded) {
  const TemporaryDirectory dir;
  Exported(dir.File("q.gguf"), GgufMix::kQ8_0);
  const auto file = GgufFile::Open(dir.File("q.gguf"), GgufTypes::kUnpackable);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read = OpenGgufModel(dir.File("q.gguf"));
  ASSERT_TRUE(read.ok()) << read.status();
  const auto* const blocks = dynamic_cast<const PackedBlocks*>(&read->weights());
  ASSERT_NE(blocks, nullptr);
  const std::string rows = absl::StrCat(kLinear, "in_proj_z.weight");
  const std::string columns = absl::StrCat(kLinear, "out_proj.weight");
  EXPECT_EQ(blocks->blocks().count(rows), 1u);
  EXPECT_EQ(blocks->blocks().count(columns), 0u);
  // A row of 32 elements has 34 bytes. Head 1 is number 2 in the file.
  std::vector<uint8_t> found(2 * 34);
  ASSERT_TRUE(blocks->ReadBlocks(rows, 16 * 34, absl::MakeSpan(found)).ok());
  EXPECT_EQ(found, *(*file)->RawBytes("blk.0.attn_gate.weight", 2 * 16 * 34, (2 * 16 + 2) * 34));
  const HfDirectory model = OpenModel(kModel);
  for (const std::string& name : {rows, columns}) {
    const std::vector<float> exact = Read(model.weights(), name);
    const std::vector<float> decoded = Read(read->weights(), name);
    for (size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(decoded[i], exact[i], 5e-3f) << name << i;
  }
}

TEST(GgufQwen35Test, MetadataHaveLlamaCppsKeys) {
  const TemporaryDirectory dir;
  const auto file = Exported(dir.File("m.gguf"));
  const GgufMetadata& metadata = file->metadata();
  for (const auto& [key, value] :
       {std::pair("ssm.conv_kernel", 4), std::pair("ssm.state_size", 16),
        std::pair("ssm.group_count", 2), std::pair("ssm.inner_size", 96),
        std::pair("ssm.time_step_rank", 6), std::pair("full_attention_interval", 2),
        std::pair("rope.dimension_count", 4)}) {
    EXPECT_EQ(*metadata.GetInt(absl::StrCat("qwen35.", key)), value) << key;
  }
  EXPECT_EQ(*metadata.GetInts("qwen35.rope.dimension_sections"),
            (std::vector<int64_t>{1, 1, 0, 0}));
}

TEST(GgufQwen35Test, ConfigsThatLlamaCppWouldNotFollowAreRefused) {
  const Json types = {"full_attention", "linear_attention", "linear_attention", "full_attention"};
  const Json changes = {{"linear_value_head_dim", 5},
                        {"rms_norm_eps", 1e-5},
                        {"attention_bias", true},
                        {"attn_output_gate", false},
                        {"hidden_act", "gelu"}};
  for (const auto& [key, value] : changes.items()) {
    ExpectUnimplemented(MetadataWith({{key, value}}), absl::StrCat("\"", key, "\""));
  }
  ExpectUnimplemented(MetadataWith({{"layer_types", types}}),
                      "\"layer_types[1]\" is \"linear_attention\", expected \"full_attention\"");
  EXPECT_THAT(MetadataWith({{"layer_types", Json{"full_attention"}}}).status().ToString(),
              HasSubstr("\"layer_types\" is not a list of 4 layers"));
  ExpectUnimplemented(
      MetadataWith({{"rope_parameters",
                     {{"rope_type", "yarn"}, {"factor", 4.0}, {"mrope_section", {1, 0, 0}}}}}),
      "rope_parameters.rope_type");
  ExpectUnimplemented(GgufMetadataOf(OpenModel("tests/testdata/qwen3_5_tiny").config()),
                      "\"linear_value_head_dim\" is 5, expected 6");
}

// In llama.cpp a pair beyond its axis's section has the position of a fourth axis, 0 in text. A
// model whose sections leave pairs out was run there: its log-probabilities differed by 0.2.
TEST(GgufQwen35Test, SectionsMustRotateAllPairsOfAText) {
  const auto with_sections = [](int64_t head_dim, const Json& rope) {
    return MetadataWith({{"head_dim", head_dim}, {"rope_parameters", rope}});
  };
  const auto written = [](const absl::StatusOr<GgufMetadata>& metadata) {
    return metadata.ok() ? *metadata->GetInts("qwen35.rope.dimension_sections")
                         : std::vector<int64_t>();
  };
  const auto rope = [](const Json& sections) {
    return Json{{"partial_rotary_factor", 0.25}, {"mrope_section", sections}};
  };
  EXPECT_EQ(written(with_sections(256, rope({11, 11, 10}))), (std::vector<int64_t>{11, 11, 10, 0}));
  EXPECT_EQ(written(with_sections(256, {{"partial_rotary_factor", 0.25}})),
            (std::vector<int64_t>{11, 11, 10, 0}));
  // Longer sections than a head has pairs are cut off.
  EXPECT_EQ(written(with_sections(128, rope({11, 11, 10}))), (std::vector<int64_t>{11, 11, 10, 0}));
  for (const Json& sections :
       {Json{16, 8, 8}, Json{11, 11, 9}, Json{32, 0, 0}, Json{0, 0, 0}, Json{11, 11},
        Json{11, 11, 10, 0}, Json{11, 11, -10}, Json{11, 11, 4096}, Json{100, 100, 100},
        Json{11, 11, 10.5}, Json::array(), Json("text"), Json{11, 11, "10"}}) {
    ExpectUnimplemented(with_sections(256, rope(sections)),
                        absl::StrCat("\"rope_parameters.mrope_section\" is ", sections.dump(),
                                     ", expected [11, 11, 10], or other sizes"));
  }
  // The default is longer than this head, on which llama.cpp aborts.
  ExpectUnimplemented(with_sections(16, {{"partial_rotary_factor", 0.25}}), "expected [1, 1, 0]");
}

TEST(GgufQwen35Test, MetadataWithoutAConfigAreRefused) {
  const TemporaryDirectory dir;
  const auto file = Exported(dir.File("m.gguf"));
  const auto config_with = [&](const char* key, GgufValue value) {
    GgufMetadata metadata = file->metadata();
    metadata.Set(absl::StrCat("qwen35.", key), std::move(value));
    HfConfigFacts facts;
    facts.vocab_size = 257;
    return HfConfigOf(metadata, facts);
  };
  const auto refused = [&](const char* key, GgufValue value, const char* found) {
    EXPECT_THAT(config_with(key, std::move(value)).status().ToString(),
                HasSubstr(absl::StrCat("key \"qwen35.", key, "\" is ", found)));
  };
  const char* const sections = "rope.dimension_sections";
  const char* const recurrent = "attention.recurrent_layers";
  refused("ssm.inner_size", GgufValue(uint32_t{97}), "97");
  refused("ssm.state_size", GgufValue(uint32_t{0}), "0, expected 1 to 2^24");
  refused("rope.scaling.type", GgufValue(std::string("yarn")), "\"yarn\"");
  // llama.cpp's default type is linear.
  refused("rope.scaling.factor", GgufValue(4.0f), "4, expected 1");
  refused("attention.value_length", GgufValue(uint32_t{16}), "16, expected 8");
  refused("full_attention_interval", GgufValue(uint32_t{0}), "0, expected at least 1");
  refused("nextn_predict_layers", GgufValue(uint32_t{4}), "4, expected 0 or more, and fewer");
  refused(sections, GgufArray{std::vector<int32_t>{2, 0, 0, 0}},
          "[2, 0, 0, 0], expected [1, 1, 0]");
  refused(sections, GgufArray{std::vector<int32_t>{1, 0, 0, 1}}, "[1, 0, 0, 1]");
  refused(sections, GgufArray{std::vector<int32_t>{1, 1}}, "[1, 1]");
  refused(sections, GgufArray{std::vector<int32_t>{4, 4, 4, 0}}, "[4, 4, 4, 0]");
  refused(recurrent, GgufArray{std::vector<bool>{true, false, false, false}},
          "false for block 2, expected true, as full_attention_interval 2 says");
  refused(recurrent, GgufArray{std::vector<bool>{true, false}}, "of type array of bool or of");
  const auto same = config_with(recurrent, GgufArray{std::vector<bool>{true, false, true, false}});
  EXPECT_TRUE(same.ok()) << same.status();
  refused("attention.layer_norm_rms_epsilon", GgufValue(1e-5f), "1e-05, expected 1e-06");
  GgufMetadata heads = file->metadata();
  heads.SetUint32("qwen35.ssm.time_step_rank", 5);
  EXPECT_THAT(GgufDivisionOf(heads).status().ToString(), HasSubstr("multiple of the 2 key heads"));
}

// Multi-token prediction layers follow the others, as llama.cpp's converter writes them.
TEST(GgufQwen35Test, MtpBlocksAreLeftOut) {
  const TemporaryDirectory dir;
  const auto file = Exported(dir.File("m.gguf"));
  GgufMetadata metadata = file->metadata();
  Tensors tensors = TensorsOf(*file);
  tensors["blk.4.attn_norm.weight"] = tensors["blk.0.attn_norm.weight"];
  tensors["blk.4.nextn.eh_proj.weight"] = tensors["blk.1.attn_output.weight"];
  metadata.SetUint32("qwen35.block_count", 5);
  metadata.SetUint32("qwen35.nextn_predict_layers", 1);
  const auto notes =
      ConvertGgufToHf(*Written(dir.File("mtp.gguf"), metadata, tensors), dir.File("back"));
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_THAT(*notes, Contains("Left out the multi-token prediction (MTP) layers: 2 tensors."));
  const HfDirectory back = OpenModel(dir.File("back"));
  ExpectSameModel(OpenModel(kModel).weights(), back.weights());
  EXPECT_EQ(back.config().json()["num_hidden_layers"], 4);
  EXPECT_EQ(back.config().json()["layer_types"].size(), 4u);
  const auto read = OpenGgufModel(dir.File("mtp.gguf"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(dynamic_cast<const GgufWeights&>(read->weights()).mtp_tensors(), 2);
  // Without the key there is no such block.
  metadata.SetUint32("qwen35.block_count", 4);
  metadata.SetUint32("qwen35.nextn_predict_layers", 0);
  const absl::Status beyond =
      ConvertGgufToHf(*Written(dir.File("beyond.gguf"), metadata, tensors), dir.File("no"))
          .status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument) << beyond;
  EXPECT_THAT(beyond.message(),
              HasSubstr("\"blk.4.attn_norm.weight\" is of block 4, expected one of the 4"));
}

TEST(GgufQwen35Test, MtpTensorsOfHuggingFaceAreLeftOutWithANote) {
  const TemporaryDirectory dir;
  std::filesystem::create_directory(dir.File("mtp"));
  std::filesystem::copy_file(absl::StrCat(kModel, "/config.json"), dir.File("mtp/config.json"));
  const HfDirectory model = OpenModel(kModel);
  std::vector<TensorDeclaration> declared;
  Tensors tensors = TensorsOf(model.weights());
  tensors["mtp.fc.weight"] = {Shape({1, 2}), {1, 2}};
  tensors["model.mtp.norm.weight"] = {Shape({2}), {1, 2}};
  for (const auto& [name, tensor] : tensors) {
    declared.push_back({name, DType::kFloat32, tensor.first});
  }
  auto writer = SafetensorsWriter::Create(dir.File("mtp/model.safetensors"), declared);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const auto& [name, tensor] : tensors) {
    ASSERT_TRUE((*writer)->Write(name, 0, tensor.second).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  std::vector<std::string> notes;
  GgufExportOptions options;
  options.vocabulary = GgufVocabularySource::kByte;
  const absl::Status status =
      ConvertHfToGguf(OpenModel(dir.File("mtp")), dir.File("m.gguf"), options, &notes);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(notes, ElementsAre("Left out the multi-token prediction (MTP) layers: 2 tensors."));
}

// As in the 0.8B and 2B models: no heads to reorder, and a tied head.
TEST(GgufQwen35Test, AsManyKeyHeadsAsValueHeads) {
  const TemporaryDirectory dir;
  const auto file = Exported(dir.File("m.gguf"));
  GgufMetadata metadata = file->metadata();
  metadata.SetUint32("qwen35.ssm.time_step_rank", 2);
  metadata.SetUint32("qwen35.ssm.inner_size", 32);
  Tensors tensors = TensorsOf(*file);
  tensors.erase("output.weight");
  for (const char* block : {"blk.0.", "blk.2."}) {
    for (const auto& [name, shape] :
         {std::pair("attn_qkv.weight", Shape({96, 32})),
          std::pair("attn_gate.weight", Shape({32, 32})),
          std::pair("ssm_alpha.weight", Shape({2, 32})),
          std::pair("ssm_beta.weight", Shape({2, 32})),
          std::pair("ssm_conv1d.weight", Shape({96, 4})), std::pair("ssm_a", Shape({2})),
          std::pair("ssm_dt.bias", Shape({2})), std::pair("ssm_out.weight", Shape({32, 32}))}) {
      auto& tensor = tensors.at(absl::StrCat(block, name));
      tensor.second.resize(static_cast<size_t>(shape.numel()));
      tensor.first = shape;
    }
  }
  const auto changed = Written(dir.File("equal.gguf"), metadata, tensors);
  const auto notes = ConvertGgufToHf(*changed, dir.File("back"));
  ASSERT_TRUE(notes.ok()) << notes.status();
  const HfDirectory back = OpenModel(dir.File("back"));
  EXPECT_EQ(back.config().json()["tie_word_embeddings"], true);
  EXPECT_EQ(back.weights().Find(absl::StrCat(kLinear, "conv1d.weight"))->shape, Shape({96, 1, 4}));
  for (const auto& [hf, gguf] :
       {std::pair("in_proj_qkv.weight", "attn_qkv.weight"),
        std::pair("conv1d.weight", "ssm_conv1d.weight"), std::pair("dt_bias", "ssm_dt.bias"),
        std::pair("out_proj.weight", "ssm_out.weight")}) {
    EXPECT_EQ(Read(back.weights(), absl::StrCat(kLinear, hf)),
              tensors.at(absl::StrCat("blk.0.", gguf)).second)
        << hf;
  }
  const std::vector<float> decays = Read(back.weights(), absl::StrCat(kLinear, "A_log"));
  EXPECT_FLOAT_EQ(-std::exp(decays[1]), tensors.at("blk.0.ssm_a").second[1]);
  GgufExportOptions options;
  options.vocabulary = GgufVocabularySource::kByte;
  const absl::Status again = ConvertHfToGguf(back, dir.File("again.gguf"), options);
  ASSERT_TRUE(again.ok()) << again;
  const auto reopened = GgufFile::Open(dir.File("again.gguf"));
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  const Tensors found = TensorsOf(**reopened);
  ASSERT_EQ(found.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    if (absl::EndsWith(name, "ssm_a")) continue;
    EXPECT_EQ(found.at(name), tensor) << name;
  }
}

// B A of the reordered adapter is the reordered B A: A has the weight's columns, B its rows.
TEST(GgufQwen35Test, AnAdapterIsReorderedAsItsWeight) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel(kModel);
  GgufMetadata metadata;
  metadata.SetString("general.type", "adapter");
  metadata.SetString("general.architecture", "qwen35");
  metadata.SetString("adapter.type", "lora");
  metadata.SetFloat("adapter.lora.alpha", 2.0f);
  Tensors tensors;
  const auto add = [&](const std::string& name, int64_t rows, int64_t columns) {
    std::vector<float> values(static_cast<size_t>(rows * columns));
    std::iota(values.begin(), values.end(), 0.0f);
    tensors[name] = {Shape({rows, columns}), values};
  };
  add("blk.0.attn_qkv.weight.lora_a", 2, 32);
  add("blk.0.attn_qkv.weight.lora_b", 160, 2);
  add("blk.0.ssm_out.weight.lora_a", 2, 96);
  add("blk.0.ssm_out.weight.lora_b", 32, 2);
  const auto adapter = Written(dir.File("a.gguf"), metadata, tensors);
  const absl::Status status =
      ConvertGgufToAdapter(*adapter, model.config(), kModel, dir.File("peft"), {});
  ASSERT_TRUE(status.ok()) << status;
  const auto peft = SafetensorsFile::Open(dir.File("peft/adapter_model.safetensors"));
  ASSERT_TRUE(peft.ok()) << peft.status();
  const auto matrix = [&](const char* layer, const char* side) {
    return Read(**peft,
                absl::StrCat("base_model.model.", kLinear, layer, ".lora_", side, ".weight"));
  };
  EXPECT_EQ(matrix("in_proj_qkv", "A"), tensors["blk.0.attn_qkv.weight.lora_a"].second);
  EXPECT_EQ(matrix("out_proj", "B"), tensors["blk.0.ssm_out.weight.lora_b"].second);
  const std::vector<float> rows = matrix("in_proj_qkv", "B");
  const std::vector<float> columns = matrix("out_proj", "A");
  const size_t order[] = {0, 3, 1, 4, 2, 5};  // of the heads in the GGUF file
  for (size_t head = 0; head < 6; ++head) {
    EXPECT_EQ(rows[(64 + 16 * order[head] + 3) * 2], static_cast<float>((64 + 16 * head + 3) * 2));
    EXPECT_EQ(columns[96 + 16 * order[head] + 5], static_cast<float>(96 + 16 * head + 5));
  }
  EXPECT_EQ(rows[63 * 2], 63.0f * 2);
}

// The file lacks the layer that the adapter was trained for.
TEST(GgufQwen35Test, AnAdapterOfAnMtpLayerIsRefused) {
  const TemporaryDirectory dir;
  const HfDirectory model = OpenModel(kModel);
  PeftAdapter adapter;
  adapter.rank = 2;
  adapter.alpha = 2;
  adapter.layers = {"mtp.layers.0.self_attn.q_proj"};
  TensorCopy matrix;
  matrix.from = model.weights().names().front();
  const absl::Status status = ConvertAdapterToGguf(model.config(), adapter, model.weights(),
                                                   {matrix, matrix}, dir.File("a.gguf"), {}, "a");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(status.message(),
              HasSubstr("adapts \"mtp.layers.0.self_attn.q_proj\", which a GGUF"));
  EXPECT_FALSE(std::filesystem::exists(dir.File("a.gguf")));
}

TEST(GgufQwen35Test, ADecayMustBeNegative) {
  const TemporaryDirectory dir;
  std::string bytes;
  const auto file = Exported(dir.File("m.gguf"));
  const std::vector<float> decays = Read(*file, "blk.0.ssm_a");
  {
    std::ifstream in(dir.File("m.gguf"), std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::string stored(reinterpret_cast<const char*>(decays.data()), 24);
  const size_t at = bytes.find(stored);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 3] = static_cast<char>(bytes[at + 3] & 0x7f);
  std::ofstream(dir.File("m.gguf"), std::ios::binary) << bytes;
  const auto damaged = GgufFile::Open(dir.File("m.gguf"));
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  const absl::Status status = ConvertGgufToHf(**damaged, dir.File("back")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  EXPECT_THAT(status.message(), HasSubstr("expected a finite negative number"));
}

}  // namespace
}  // namespace zeroth
