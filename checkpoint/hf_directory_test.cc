// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_directory.h"

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

TEST(HfDirectoryTest, OpensWhatTransformersWrote) {
  for (const char* path : {"tests/testdata/gpt2_tiny", "tests/testdata/llama_tiny/"}) {
    const auto directory = HfDirectory::Open(path);
    ASSERT_TRUE(directory.ok()) << directory.status();
    EXPECT_EQ(*directory->config().GetInt("vocab_size"), 257);
    EXPECT_GT(directory->weights().names().size(), 20u);
    EXPECT_TRUE(directory->TokenizerFiles().empty());
  }
}

TEST(HfDirectoryTest, TakesTheTextModelOfAModelOfImages) {
  const auto directory = HfDirectory::Open("tests/testdata/gemma3_vision_tiny");
  ASSERT_TRUE(directory.ok()) << directory.status();
  const HfConfig& config = directory->config();
  EXPECT_EQ(*config.ModelType(), "gemma3_text");
  EXPECT_EQ(*config.GetInt("hidden_size"), 24);
  EXPECT_EQ(config.json()["eos_token_id"], nlohmann::json({256, 255}));
  EXPECT_FALSE(config.Has("vision_config"));
  const WeightsSource& weights = directory->weights();
  EXPECT_EQ(weights.names().size(), 80u);
  for (const std::string& name : weights.names()) EXPECT_THAT(name, StartsWith("model."));
  const auto values = weights.ReadAll("model.norm.weight", Shape({24}));
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(directory->left_out(), HasSubstr("vision tower"));
  EXPECT_TRUE(HfDirectory::Open("tests/testdata/gemma3_tiny")->left_out().empty());
}

// A saved state_dict has the names of transformers' modules. Sizes that are defaults may be absent.
TEST(HfDirectoryTest, TakesTheTextModelUnderTheNamesOfModules) {
  const TemporaryDirectory dir;
  const auto open = [&](const std::string& config, const std::string& header) {
    dir.Write("config.json", config);
    const auto size = static_cast<char>(header.size());
    dir.Write("model.safetensors",
              std::string(1, size) + std::string(7, '\0') + header + std::string(8, '\0'));
    return HfDirectory::Open(dir.path());
  };
  const std::string later = R"("model.language_model.x":{"dtype":"F32","shape":[1],)"
                            R"("data_offsets":[0,4]})";
  const std::string with_vision =
      absl::StrCat("{", later, R"(,"model.vision_tower.y":{)", R"("dtype":"F32","shape":[1],)",
                   R"("data_offsets":[4,8]}})");
  const auto directory =
      open(R"({"model_type":"gemma3","text_config":{"hidden_size":8}})", with_vision);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_THAT(directory->weights().names(), ElementsAre("model.x"));
  EXPECT_EQ(*directory->config().GetInt("vocab_size"), 262208);
  EXPECT_EQ(*directory->config().GetInt("hidden_size"), 8);
  const auto twice = open(R"({"model_type":"gemma3","text_config":{}})",
                          absl::StrCat("{", later, R"(,"language_model.model.x":{"dtype":"F32",)",
                                       R"("shape":[1],"data_offsets":[4,8]}})"));
  EXPECT_THAT(std::string(twice.status().message()), HasSubstr("are both \"model.x\""));
  const auto without = open(R"({"model_type":"gemma3"})", with_vision);
  EXPECT_THAT(std::string(without.status().message()), HasSubstr("\"text_config\" is missing"));
}

TEST(HfDirectoryTest, TakesTheTextModelOfAQwen35) {
  const TemporaryDirectory dir;
  dir.Write("config.json", R"({"model_type":"qwen3_5","tie_word_embeddings":true,)"
                           R"("text_config":{"model_type":"qwen3_5_text","hidden_size":8}})");
  std::string header = "{";
  int offset = 0;
  for (const char* name :
       {"model.language_model.x", "model.visual.y", "mtp.z", "model.mtp.z", "lm_head.weight"}) {
    absl::StrAppend(&header, offset == 0 ? "" : ",", "\"", name,
                    R"(":{"dtype":"F32","shape":[1],"data_offsets":[)", offset, ",", offset + 4,
                    "]}");
    offset += 4;
  }
  absl::StrAppend(&header, "}");
  const std::string size = {static_cast<char>(header.size() % 256),
                            static_cast<char>(header.size() / 256)};
  dir.Write("model.safetensors",
            size + std::string(6, '\0') + header + std::string(static_cast<size_t>(offset), '\0'));
  const auto directory = HfDirectory::Open(dir.path());
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(*directory->config().ModelType(), "qwen3_5_text");
  EXPECT_EQ(*directory->config().GetInt("vocab_size"), 248320);
  EXPECT_EQ(directory->config().json()["tie_word_embeddings"], true);
  EXPECT_THAT(directory->weights().names(), ElementsAre("lm_head.weight", "model.x"));
  EXPECT_THAT(directory->left_out(), HasSubstr("vision tower and the layers that predict"));
}

TEST(HfDirectoryTest, FindsTokenizerFiles) {
  const TemporaryDirectory dir;
  dir.Write("config.json", "{}");
  dir.Write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  dir.Write("vocab.json", "{}");
  dir.Write("merges.txt", "");
  dir.Write("notes.txt", "");
  const auto directory = HfDirectory::Open(dir.path());
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_THAT(directory->TokenizerFiles(),
              ElementsAre(dir.File("merges.txt"), dir.File("vocab.json")));
  // A template for tools is in a subdirectory; its copy is not.
  dir.Write("chat_template.jinja", "plain");
  dir.Write("additional_chat_templates/tool_use.jinja", "tools");
  const auto files = directory->ReadTokenizerFiles();
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(Pair("merges.txt", ""),
                                  Pair("tokenizer_config.json", HasSubstr("\"tool_use\"")),
                                  Pair("vocab.json", "{}")));
}

TEST(HfDirectoryTest, TakesAWholeTokenizerOfAnAdapterOrNone) {
  const TemporaryDirectory dir;
  dir.Write("config.json", "{}");
  dir.Write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
  dir.Write("tokenizer.json", "{}");
  dir.Write("generation_config.json", "base");
  auto directory = HfDirectory::Open(dir.path());
  ASSERT_TRUE(directory.ok()) << directory.status();
  const TemporaryDirectory adapter;
  ASSERT_TRUE(directory->UseTokenizerOf(adapter.path()).ok());
  EXPECT_THAT(directory->TokenizerFiles(), ElementsAre(dir.File("tokenizer.json")));
  adapter.Write("chat_template.jinja", "");
  EXPECT_THAT(std::string(directory->UseTokenizerOf(adapter.path()).message()),
              HasSubstr("chat_template.jinja: is there without a tokenizer"));
  EXPECT_EQ(directory->tokenizer_path(), dir.path());
  EXPECT_EQ(directory->tokenizer_owner(), "");
  // Files of a GGUF file's tokenizer are temporary, so no message names their directory.
  ASSERT_TRUE(directory->SetTokenizerFiles({{"tokenizer.json", "{}"}}).ok());
  EXPECT_EQ(directory->tokenizer_owner(), dir.path());
  EXPECT_THAT(std::string(directory->UseTokenizerOf(adapter.path()).message()),
              HasSubstr("copy that of the model (tools/convert writes it) into"));
  EXPECT_EQ(directory->tokenizer_owner(), dir.path());
  adapter.Write("tokenizer.json", "{}");
  ASSERT_TRUE(directory->UseTokenizerOf(adapter.path()).ok());
  EXPECT_EQ(directory->tokenizer_owner(), "");
  EXPECT_THAT(directory->TokenizerFiles(),
              ElementsAre(adapter.File("chat_template.jinja"), adapter.File("tokenizer.json")));
  EXPECT_EQ(directory->ReadGenerationConfig()->value(), "base");
}

TEST(HfDirectoryTest, SaysWhatAModelDirectoryIs) {
  const TemporaryDirectory dir;
  const auto error = [](const std::string& path, absl::StatusCode code) {
    const auto directory = HfDirectory::Open(path);
    EXPECT_EQ(directory.status().code(), code) << directory.status();
    EXPECT_THAT(std::string(directory.status().message()), HasSubstr(path));
    return std::string(directory.status().message());
  };
  EXPECT_THAT(error(dir.File("absent"), absl::StatusCode::kNotFound),
              HasSubstr("expected a Hugging Face model directory"));
  EXPECT_THAT(error(dir.Write("file", "x"), absl::StatusCode::kInvalidArgument),
              HasSubstr("not a directory"));
  EXPECT_THAT(error(dir.path(), absl::StatusCode::kNotFound), HasSubstr("has no config.json"));
  // The directory of a run, whose model lies below.
  const TemporaryDirectory run;
  ASSERT_TRUE(std::filesystem::create_directory(run.File("final")));
  run.Write("final/config.json", "{}");
  EXPECT_THAT(error(run.path(), absl::StatusCode::kNotFound),
              HasSubstr("did you mean " + run.File("final") + "?"));
  dir.Write("config.json", "{");
  EXPECT_THAT(error(dir.path(), absl::StatusCode::kInvalidArgument), HasSubstr("bad JSON"));
  dir.Write("config.json", "{}");
  EXPECT_THAT(error(dir.path(), absl::StatusCode::kNotFound),
              HasSubstr("expected model.safetensors"));
  dir.Write("adapter_config.json", "{}");
  EXPECT_THAT(error(dir.path(), absl::StatusCode::kNotFound),
              HasSubstr("is an adapter, but has a config.json"));
  dir.Write("model.safetensors", "not tensors");
  EXPECT_THAT(error(dir.path(), absl::StatusCode::kInvalidArgument),
              HasSubstr("is this a safetensors file?"));
}

}  // namespace
}  // namespace zeroth
