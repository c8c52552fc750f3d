// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/model_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/testing/capped_by_transform.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TokenIdsTest, BytesHaveTheirOwn) {
  const ByteTokenizer bytes;
  const Json expected = {{"bos_token_id", 256}, {"eos_token_id", 256}};
  EXPECT_EQ(TokenIds(Json::object(), &bytes), expected);
  // A model of words that is trained further on bytes.
  EXPECT_EQ(TokenIds({{"eos_token_id", 50256}, {"pad_token_id", 50257}}, &bytes), expected);
}

TEST(TokenIdsTest, ATextBeginsWithTheTokenizersOwn) {
  const auto llama = OpenTokenizer("tests/testdata/tokenizers/llama3").value();
  ASSERT_NE(llama->prefix().front(), llama->end_of_text());
  EXPECT_EQ(TokenIds(Json::object(), llama.get()), (Json{{"bos_token_id", llama->prefix().front()},
                                                         {"eos_token_id", llama->end_of_text()}}));
}

TEST(TokenIdsTest, TheBeginTokenNeedNotBeginTexts) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.model",
            *ReadFile("tests/testdata/tokenizers/sentencepiece/tokenizer.model"));
  dir.Write("tokenizer_config.json", R"({"add_bos_token": false})");
  const auto llama = OpenTokenizer(dir.path()).value();
  ASSERT_TRUE(llama->prefix().empty());
  EXPECT_EQ(TokenIds(Json::object(), llama.get()),
            (Json{{"bos_token_id", 1}, {"eos_token_id", 2}}));
}

TEST(TokenIdsTest, TheSourcesAreKept) {
  const Json source = {{"bos_token_id", 128000},
                       {"eos_token_id", {128001, 128009}},
                       {"pad_token_id", nullptr},
                       {"vocab_size", 128256}};
  Json expected = source;
  expected.erase("vocab_size");
  EXPECT_EQ(TokenIds(source, nullptr), expected);
}

TEST(TokenIdsTest, WhatIsUnknownIsNull) {
  EXPECT_EQ(TokenIds(Json::object(), nullptr),
            (Json{{"bos_token_id", nullptr}, {"eos_token_id", nullptr}}));
}

TEST(TokenIdsTest, TheEndOfATurnComesFirst) {
  const auto with = [](Json config) {
    AddEndOfTurn(7, config);
    return config["eos_token_id"];
  };
  EXPECT_EQ(with({{"eos_token_id", 5}}), Json({7, 5}));
  EXPECT_EQ(with({{"eos_token_id", {5, 7, 6}}}), Json({7, 5, 6}));
  EXPECT_EQ(with({{"eos_token_id", 7}}), Json(7));
  EXPECT_EQ(with({{"eos_token_id", nullptr}}), Json(7));
  EXPECT_EQ(with(Json::object()), Json(7));
}

TEST(TokenIdsTest, AModelFromScratchHasTheTokenizers) {
  const auto llama = OpenTokenizer("tests/testdata/tokenizers/llama3").value();
  const Json own = {{"bos_token_id", llama->prefix().front()},
                    {"eos_token_id", llama->end_of_text()}};
  TrainOptions options;
  options.model = "tests/testdata/llama_tiny/config.json";
  const absl::StatusOr<ModelSource> scratch = ModelSource::Open(options);
  ASSERT_TRUE(scratch.ok()) << scratch.status();
  EXPECT_EQ(scratch->TokenIds(llama.get()), own);
  EXPECT_EQ(scratch->TokenIds(nullptr)["eos_token_id"], 256);
  options.model.clear();
  options.init_from = "tests/testdata/llama_tiny";
  const absl::StatusOr<ModelSource> tuned = ModelSource::Open(options);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->TokenIds(llama.get())["eos_token_id"], 256);
}

TEST(ModelSourceTest, ATokenizerBesideAConfigurationIsNamed) {
  const TemporaryDirectory dir;
  TrainOptions options;
  Json config = Json::parse(ReadTestFile("tests/testdata/llama_tiny/config.json"));
  config["vocab_size"] = 905;  // 257 is the byte tokenizer's
  options.model = dir.Write("config.json", config.dump());
  const auto problem = [&] {
    const auto source = ModelSource::Open(options);
    EXPECT_TRUE(source.ok()) << source.status();
    return std::string(source->OpenTokenizer(options, /*has_text=*/true).status().message());
  };
  EXPECT_THAT(problem(), AllOf(HasSubstr("config.json: text cannot become ids"),
                               HasSubstr("Give --tokenizer=PATH")));
  dir.Write("tokenizer.json", ReadTestFile("tests/testdata/tokenizers/llama3/tokenizer.json"));
  EXPECT_THAT(problem(), HasSubstr(absl::StrCat("config.json (--tokenizer=", dir.path(),
                                                " is the one beside it): text cannot")));
}

TEST(ModelSourceTest, RowsOfNewTokensAreTheMeanOfTheOthers) {
  const TemporaryDirectory dir;
  dir.Write("tokenizer.json", ReadTestFile("tests/testdata/tokenizers/qwen2/tokenizer.json"));
  TrainOptions options;
  options.init_from = "tests/testdata/llama_tiny";
  options.tokenizer = dir.path();
  options.new_tokens = "<a>, <b>";
  const absl::StatusOr<ModelSource> source = ModelSource::Open(options);
  ASSERT_TRUE(source.ok()) << source.status();
  // The tokenizer has ids up to 902.
  EXPECT_EQ(source->config()["vocab_size"], 905);
  const auto weights = HfWeights::Open("tests/testdata/llama_tiny").value();
  const auto model = source->Build().value();
  int seen = 0;
  for (const Parameter* parameter : model->Parameters()) {
    const std::string& name = parameter->name();
    if (name != "lm_head.weight" && name != "model.embed_tokens.weight") continue;
    ++seen;
    const Shape shape = weights->ShapeOf(name).value();
    const std::vector<float> stored = weights->ReadAll(name, shape).value();
    const auto width = static_cast<size_t>(shape.dim(1));
    ASSERT_EQ(parameter->global_shape(), Shape({905, shape.dim(1)}));
    std::vector<float> all(static_cast<size_t>(parameter->global_shape().numel()));
    // In uneven pieces, as shards begin anywhere.
    for (size_t begin = 0; begin < all.size(); begin += 977) {
      const size_t size = std::min<size_t>(977, all.size() - begin);
      ASSERT_TRUE(source
                      ->Reader(1)(*parameter, static_cast<int64_t>(begin),
                                  absl::MakeSpan(all).subspan(begin, size))
                      .ok());
    }
    EXPECT_TRUE(std::equal(stored.begin(), stored.end(), all.begin()));
    for (size_t column = 0; column < width; ++column) {
      double sum = 0;
      for (size_t i = column; i < stored.size(); i += width) sum += stored[i];
      const auto mean = static_cast<float>(sum / static_cast<double>(shape.dim(0)));
      for (size_t i = stored.size() + column; i < all.size(); i += width) {
        ASSERT_EQ(all[i], mean) << name << " " << i;
      }
    }
  }
  EXPECT_EQ(seen, 2);
}

// Returns the codes of all packed weights of a model, by name.
std::map<std::string, std::vector<float>> PackedCodes(const TrainOptions& options) {
  std::map<std::string, std::vector<float>> codes;
  const absl::StatusOr<ModelSource> source = ModelSource::Open(options);
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return codes;
  const auto model = source->Build().value();
  const ParameterReader reader = source->Reader(1);
  for (const Parameter* parameter : model->Parameters()) {
    if (parameter->dtype() != DType::kUInt8) continue;
    std::vector<float>& all = codes[parameter->name()];
    all.resize(static_cast<size_t>(parameter->global_shape().numel()));
    EXPECT_TRUE(reader(*parameter, 0, absl::MakeSpan(all)).ok()) << parameter->name();
  }
  return codes;
}

TEST(ModelSourceTest, BlocksMayLackThePrefixOfTheirModel) {
  const std::string from = "tests/testdata/gpt_oss_experts/mxfp4";
  TrainOptions options;
  options.init_from = from;
  options.lora_rank = 2;
  options.base_dtype = BaseDtype::kMxfp4;
  const auto expected = PackedCodes(options);
  EXPECT_EQ(expected.size(), 9u);
  const TemporaryDirectory dir;
  dir.Write("config.json", ReadTestFile(from + "/config.json"));
  std::string file = ReadTestFile(from + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  std::string header =
      absl::StrReplaceAll(file.substr(sizeof(length), length), {{"\"model.", "\""}});
  header.resize(length, ' ');
  file.replace(sizeof(length), length, header);
  dir.Write("model.safetensors", file);
  ASSERT_NE(HfWeights::Open(dir.path()).value()->Find("norm.weight"), nullptr);
  options.init_from = dir.path();
  EXPECT_EQ(PackedCodes(options), expected);
}

using Parameters = std::vector<std::tuple<std::string, std::string, DType, bool>>;

Parameters ParametersOf(const ModelSource& source, std::optional<int64_t> layers = std::nullopt) {
  const auto model = source.Build(layers).value();
  Parameters all;
  for (const Parameter* parameter : model->Parameters()) {
    all.emplace_back(parameter->name(), parameter->global_shape().ToString(), parameter->dtype(),
                     parameter->requires_grad());
  }
  return all;
}

TEST(ModelSourceTest, WithoutFilesExpertsAreInMxfp4AsPublished) {
  const std::string from = "tests/testdata/gpt_oss_experts/mxfp4";
  Json config = Json::parse(ReadTestFile(from + "/config.json"));
  ASSERT_TRUE(config.contains("quantization_config"));
  ASSERT_EQ(config["layer_types"].size(), 1u);  // and of three below
  const TemporaryDirectory dir;
  TrainOptions options;
  options.model = dir.Write("config.json", config.dump());
  options.lora_rank = 2;
  options.base_dtype = BaseDtype::kMxfp4;
  const absl::StatusOr<ModelSource> planned = ModelSource::Open(options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  options.init_from = from;
  const absl::StatusOr<ModelSource> published = ModelSource::Open(options);
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(ParametersOf(*planned), ParametersOf(*published));

  const auto count_codes = [](const Parameters& all) {
    return std::ranges::count_if(
        all, [](const auto& one) { return std::get<DType>(one) == DType::kUInt8; });
  };
  EXPECT_EQ(count_codes(ParametersOf(*planned)), 9);
  EXPECT_EQ(count_codes(ParametersOf(*planned, 3)), 27);
  // There are no blocks to train on.
  const auto model = planned->Build().value();
  const ParameterReader reader = planned->Reader(1);
  for (const Parameter* parameter : model->Parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter->global_shape().numel()));
    const absl::Status read = reader(*parameter, 0, absl::MakeSpan(values));
    if (parameter->dtype() == DType::kUInt8) {
      EXPECT_THAT(read.ToString(), HasSubstr("--base_dtype=mxfp4 needs --init_from=DIRECTORY"));
    } else {
      EXPECT_TRUE(read.ok()) << read;
    }
  }
}

TEST(ModelSourceTest, BlocksThatAreNotThereAreAnError) {
  TrainOptions options;
  options.lora_rank = 2;
  options.base_dtype = BaseDtype::kMxfp4;
  for (const auto& [from, problem] :
       {std::pair<std::string, std::string>("", "expected --init_from=DIRECTORY of a gpt-oss"),
        {"tests/testdata/gpt_oss_experts/dense", "experts have no quantised weights"},
        {"tests/testdata/llama_tiny", "experts have no quantised weights"}}) {
    options.init_from = from;
    const absl::Status status = ModelSource::Open(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << from;
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }
}

// The head of a model of texts is replaced by a new one, but a reward model has its own.
TEST(ModelSourceTest, ARewardModelWithoutItsHeadIsRefused) {
  const TemporaryDirectory dir;
  dir.Write("model.safetensors", ReadTestFile("tests/testdata/llama_tiny/model.safetensors"));
  Json config = Json::parse(ReadTestFile("tests/testdata/llama_tiny/config.json"));
  TrainOptions options;
  options.init_from = dir.path();
  options.objective = Objective::kReward;
  dir.Write("config.json", config.dump());
  EXPECT_EQ(ModelSource::Open(options).status(), absl::OkStatus());
  config["architectures"] = {"LlamaForSequenceClassification"};
  config["num_labels"] = 1;
  config.erase("id2label");
  dir.Write("config.json", config.dump());
  const absl::Status status = ModelSource::Open(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing: score.weight"));
}

// Writes the model of `folder` with that config and further tensors of one element each.
void WriteWithExtras(const std::string& folder, const std::string& config,
                     const std::vector<std::pair<std::string, Shape>>& extras,
                     const TemporaryDirectory& dir) {
  dir.Write("config.json", config);
  const auto weights = HfWeights::Open(folder).value();
  std::vector<TensorDeclaration> tensors;
  for (const auto& [name, shape] : extras) tensors.push_back({name, DType::kFloat32, shape});
  for (const auto& [name, entry] : weights->tensors()) {
    tensors.push_back({name, DType::kFloat32, entry.shape});
  }
  auto writer = SafetensorsWriter::Create(dir.File("model.safetensors"), tensors);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const auto& [name, shape] : extras) ASSERT_TRUE((*writer)->Write(name, 0, {1.0f}).ok());
  for (const auto& [name, entry] : weights->tensors()) {
    ASSERT_TRUE((*writer)->Write(name, 0, *weights->ReadAll(name, entry.shape)).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
}

// Published Qwen3.5 models have layers that predict further tokens, which no model here has.
TEST(ModelSourceTest, MultiTokenPredictionLayersAreIgnored) {
  const std::string folder = "tests/testdata/qwen3_5_tiny";
  for (const auto& [extra, is_known] : {std::pair("mtp.fc.weight", true),
                                        {"model.mtp.layers.0.mlp.up_proj.weight", true},
                                        {"model.layers.0.mtp.fc.weight", false}}) {
    const TemporaryDirectory dir;
    WriteWithExtras(folder, ReadTestFile(absl::StrCat(folder, "/config.json")),
                    {{extra, Shape({1})}}, dir);
    TrainOptions options;
    options.init_from = dir.path();
    const auto source = ModelSource::Open(options);
    EXPECT_EQ(source.ok(), is_known) << extra << source.status();
    if (source.ok()) {
      EXPECT_EQ(source->ignored_mtp_tensors(), 1);
    } else {
      EXPECT_THAT(std::string(source.status().message()),
                  HasSubstr(absl::StrCat("unexpected: ", extra)));
    }
  }
}

class WithMtpLayer : public zeroth::testing::CappedByTransform {
 public:
  WithMtpLayer(std::unique_ptr<LanguageModel> model, const Json& config)
      : CappedByTransform(std::move(model), /*cap=*/30.0f, config) {
    AddChild(std::make_unique<Linear>("mtp.fc", 1, 1));
  }
};

const ModelRegistration with_mtp_layer(
    "gemma2_with_mtp",
    [](const Json& config,
       const ModelOptions& options) -> absl::StatusOr<std::unique_ptr<LanguageModel>> {
      Json plain = config;
      plain["model_type"] = "gemma2";
      plain["final_logit_softcapping"] = nullptr;
      ZEROTH_ASSIGN_OR_RETURN(auto model, ModelRegistry::Create(plain, options));
      return std::make_unique<WithMtpLayer>(std::move(model), config);
    });

// A model of one's own may have such layers: then they are trained.
TEST(ModelSourceTest, MultiTokenPredictionLayersOfTheModelAreNotIgnored) {
  const std::string folder = "tests/testdata/gemma2_tiny";
  Json config = Json::parse(ReadTestFile(absl::StrCat(folder, "/config.json")));
  config["model_type"] = "gemma2_with_mtp";
  const TemporaryDirectory dir;
  WriteWithExtras(folder, config.dump(),
                  {{"mtp.fc.weight", Shape({1, 1})},
                   {"mtp.fc.bias", Shape({1})},
                   {"mtp.norm.weight", Shape({1})}},
                  dir);
  TrainOptions options;
  options.init_from = dir.path();
  const auto source = ModelSource::Open(options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->ignored_mtp_tensors(), 1);
}

// An adapter of a model of texts has no head of rewards, and cannot start one.
TEST(ModelSourceTest, AnAdapterOfAnotherModelIsRefusedWithWhatToDo) {
  TrainOptions options;
  options.init_from = "tests/testdata/llama_tiny";
  options.init_adapter = "tests/testdata/peft/llama_lora";
  const absl::StatusOr<TrainOptions> as_text = WithInitAdapter(options);
  ASSERT_TRUE(as_text.ok()) << as_text.status();
  EXPECT_EQ(ModelSource::Open(*as_text).status(), absl::OkStatus());

  options.objective = Objective::kReward;
  const absl::StatusOr<TrainOptions> as_reward = WithInitAdapter(options);
  ASSERT_TRUE(as_reward.ok()) << as_reward.status();
  EXPECT_THAT(std::string(ModelSource::Open(*as_reward).status().message()),
              AllOf(HasSubstr("only the model: score.weight\nIt was not trained as a reward model. "
                              "Merge it by tools/convert --in=ADAPTER --out=DIRECTORY, and give "
                              "--init_from=DIRECTORY and --lora_rank instead"),
                    Not(HasSubstr("only the adapter"))));
  options.lora_modules_to_save = "score";
  EXPECT_THAT(
      std::string(WithInitAdapter(options).status().message()),
      HasSubstr("--lora_modules_to_save=score, but that of --init_adapter is empty; leave"));

  TrainOptions fewer = *as_text;
  fewer.lora_targets = "q_proj";
  EXPECT_THAT(std::string(ModelSource::Open(fewer).status().message()),
              HasSubstr("\nExpected the model that it was made for as --init_from, without "
                        "--lora_targets"));
}

// A copy of Llama's weights beside a configuration that ties the head.
TEST(ModelSourceTest, ATiedModelTakesNoOtherHead) {
  const auto weights = HfWeights::Open("tests/testdata/llama_tiny").value();
  Json config = Json::parse(ReadTestFile("tests/testdata/llama_tiny/config.json"));
  config["tie_word_embeddings"] = true;
  for (const bool same : {true, false}) {
    const TemporaryDirectory dir;
    dir.Write("config.json", config.dump());
    std::vector<TensorDeclaration> tensors;
    for (const auto& [name, entry] : weights->tensors()) {
      tensors.push_back({name, DType::kFloat32, entry.shape});
    }
    auto writer = SafetensorsWriter::Create(dir.File("model.safetensors"), tensors);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& [name, entry] : weights->tensors()) {
      const bool is_head = name == "lm_head.weight";
      const auto values =
          weights->ReadAll(is_head && same ? "model.embed_tokens.weight" : name, entry.shape);
      ASSERT_TRUE(values.ok()) << values.status();
      ASSERT_TRUE((*writer)->Write(name, 0, *values).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    TrainOptions options;
    options.init_from = dir.path();
    const absl::Status status = ModelSource::Open(options).status();
    if (same) {
      EXPECT_EQ(status, absl::OkStatus());
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("\"lm_head.weight\" differs from \"model.embed_tokens.weight\""));
    }
  }
}

}  // namespace
}  // namespace zeroth
