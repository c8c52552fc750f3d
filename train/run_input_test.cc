// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_input.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/options/options.h"
#include "zeroth/train/run_spec.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The data are ten sequences of ten tokens, and a step reads four of them.
class RunInputTest : public testing::Test {
 protected:
  RunInputTest() {
    options_.data = dir_.Write("text.txt", std::string(105, 'a'));
    options_.cache_dir = "none";
    options_.seq_len = 10;
    options_.world_size = 2;
    options_.batch_size = 1;
    options_.warmup_steps = 0;
    options_.grad_accum = 2;
  }
  absl::StatusOr<RunInput> Open() const {
    ZEROTH_ASSIGN_OR_RETURN(const RunSpec spec, ResolveRun(options_));
    return OpenInput(spec);
  }

  TemporaryDirectory dir_;
  TrainOptions options_;
};

TEST_F(RunInputTest, EpochsCountStepsOfTheGlobalBatch) {
  for (const auto& [epochs, steps] :
       {std::pair<double, int64_t>{1, 3}, {2, 5}, {4, 10}, {0.4, 1}, {0.01, 1}, {0.5, 2}}) {
    options_.epochs = epochs;
    const absl::StatusOr<RunInput> input = Open();
    ASSERT_EQ(input.status(), absl::OkStatus());
    EXPECT_EQ(input->sequences_per_epoch, 10);
    EXPECT_EQ(input->length.steps, steps) << epochs;
    EXPECT_DOUBLE_EQ(input->length.schedule.At(steps), options_.final_lr());
  }
}

// As in transformers, where the others have the model's type.
TEST_F(RunInputTest, BiasesOfRoutersStayFp32BesideBf16) {
  const auto dots1 = HfDirectory::Open("tests/testdata/dots1_tiny");
  ASSERT_TRUE(dots1.ok()) << dots1.status();
  HfConvertOptions in_bf16;
  in_bf16.dtype = DType::kBFloat16;
  ASSERT_EQ(ConvertHfToHf(*dots1, dir_.File("model"), in_bf16), absl::OkStatus());
  const auto weights = HfWeights::Open(dir_.File("model"));
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::string gate = "model.layers.1.mlp.gate.";
  EXPECT_EQ((*weights)->Find(gate + "weight")->dtype, SafetensorsDType::kBF16);
  EXPECT_EQ((*weights)->Find(gate + "e_score_correction_bias")->dtype, SafetensorsDType::kF32);

  // transformers 5.24 writes weights of these routers in fp32, too.
  std::vector<TensorDeclaration> tensors;
  for (const auto& [name, entry] : (*weights)->tensors()) {
    const bool is_router = absl::StrContains(name, ".mlp.gate.");
    tensors.push_back({name, is_router ? DType::kFloat32 : DType::kBFloat16, entry.shape});
  }
  std::filesystem::create_directory(dir_.File("mixed"));
  dir_.Write("mixed/config.json", ReadTestFile(dir_.File("model/config.json")));
  auto writer = SafetensorsWriter::Create(dir_.File("mixed/model.safetensors"), tensors);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const auto& [name, entry] : (*weights)->tensors()) {
    ASSERT_EQ((*writer)->Write(name, 0, *(*weights)->ReadAll(name, entry.shape)), absl::OkStatus());
  }
  ASSERT_EQ((*writer)->Finish(), absl::OkStatus());

  options_.tokenizer = "byte";
  for (const char* model : {"model", "mixed"}) {
    options_.init_from = dir_.File(model);
    const absl::StatusOr<RunSpec> spec = ResolveRun(options_);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const absl::StatusOr<RunInput> input = OpenInput(*spec);
    ASSERT_TRUE(input.ok()) << input.status();
    const auto exported = ExportOptionsOf(*spec, *input, HfDirectoryKind::kModel);
    ASSERT_TRUE(exported.ok()) << exported.status();
    EXPECT_EQ(exported->dtype, DType::kBFloat16) << model;
  }
}

// The tokenizer of a GGUF file lies in a temporary directory, which would tell the user nothing.
TEST_F(RunInputTest, AGgufFileWithoutAChatTemplateIsNamed) {
  const auto tiny = HfWeights::Open("tests/testdata/qwen3_tiny").value();
  auto config = nlohmann::json::parse(ReadTestFile("tests/testdata/qwen3_tiny/config.json"));
  const int64_t vocab_size = 904;  // of the tokenizer
  const auto old_size = config.at("vocab_size").get<int64_t>();
  config["vocab_size"] = vocab_size;
  std::vector<TensorDeclaration> tensors;
  for (const auto& [name, entry] : tiny->tensors()) {
    const bool is_words = entry.shape.dim(0) == old_size;
    tensors.push_back(
        {name, DType::kFloat32, is_words ? Shape({vocab_size, entry.shape.dim(1)}) : entry.shape});
  }
  std::filesystem::create_directory(dir_.File("model"));
  auto writer = SafetensorsWriter::Create(dir_.File("model/model.safetensors"), tensors);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const TensorDeclaration& tensor : tensors) {
    const std::vector<float> zeros(static_cast<size_t>(tensor.shape.numel()));
    ASSERT_EQ((*writer)->Write(tensor.name, 0, zeros), absl::OkStatus());
  }
  ASSERT_EQ((*writer)->Finish(), absl::OkStatus());
  dir_.Write("model/config.json", config.dump());
  dir_.Write("model/tokenizer.json",
             ReadTestFile("tests/testdata/tokenizers/qwen2/tokenizer.json"));
  dir_.Write("model/tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  const auto model = HfDirectory::Open(dir_.File("model"));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(ConvertHfToGguf(*model, dir_.File("m.gguf"), {}), absl::OkStatus());

  options_.init_from = dir_.File("m.gguf");
  options_.data = dir_.Write("chat.jsonl", R"({"messages": [{"role": "user", "content": "a"}, )"
                                           R"({"role": "assistant", "content": "b"}]})");
  for (const char* choice : {"auto", "mistral"}) {
    options_.chat_template = choice;
    const absl::Status status = Open().status();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(choice == std::string("auto")
                              ? absl::StrCat(dir_.File("m.gguf"), " has no chat template")
                              : "needs a token <s>"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("zeroth-tokenizer")));
  }
}

// Half an epoch was read in steps of two sequences, or of eight, and now a step reads four.
TEST_F(RunInputTest, EpochsAreThoseOfTheDataWhateverTheBatchesBefore) {
  options_.epochs = 2;
  EXPECT_EQ(LengthOf(options_, 100, 25, 50)->steps, 25 + 38);
  EXPECT_EQ(LengthOf(options_, 100, 7, 56)->steps, 7 + 36);
  EXPECT_EQ(LengthOf(options_, 100, 13, 52)->steps, 50) << "as without the interruption";
  EXPECT_EQ(LengthOf(options_, 100, 25, 200)->steps, 25) << "all is read";
}

// By default, text and conversations are packed as in runs on either alone.
TEST_F(RunInputTest, EachOfTheDataSaysWhereItAttends) {
  options_.eval_data = options_.data;
  options_.data =
      dir_.Write("chat.jsonl", R"({"prompt": "a", "completion": "b"})" + std::string("\n"));
  options_.seq_len = 16;
  options_.model = "llama_tiny";
  for (const bool text_first : {false, true}) {
    const absl::StatusOr<RunInput> input = Open();
    ASSERT_EQ(input.status(), absl::OkStatus());
    EXPECT_EQ(input->within_documents, !text_first);
    EXPECT_EQ(input->eval_within_documents, text_first);
    std::swap(options_.data, options_.eval_data);
  }
  options_.attend_within = AttendWithin::kDocument;
  const absl::StatusOr<RunInput> both = Open();
  ASSERT_EQ(both.status(), absl::OkStatus());
  EXPECT_TRUE(both->within_documents && both->eval_within_documents);
}

TEST_F(RunInputTest, WithoutEpochsStepsCount) {
  options_.steps = 7;
  const absl::StatusOr<RunInput> input = Open();
  ASSERT_EQ(input.status(), absl::OkStatus());
  EXPECT_EQ(input->length.steps, 7);
}

TEST_F(RunInputTest, AWarmupCanBeAPartOfTheRun) {
  options_.epochs = 40;  // 100 steps
  options_.warmup_steps = TrainOptions().warmup_steps;
  options_.warmup_ratio = 0.07;
  options_.lr_schedule = "wsd";
  options_.decay_ratio = 0.2;
  const absl::StatusOr<RunInput> input = Open();
  ASSERT_EQ(input.status(), absl::OkStatus());
  EXPECT_LT(input->length.schedule.At(5), 1e-3);
  EXPECT_EQ(input->length.schedule.At(6), 1e-3);
  EXPECT_EQ(input->length.schedule.At(80), 1e-3);
  EXPECT_LT(input->length.schedule.At(81), 1e-3);
}

// A warm-up as long as the run would end it at the peak.
TEST_F(RunInputTest, TheDefaultWarmupIsAPartOfAnyRun) {
  options_.warmup_steps = TrainOptions().warmup_steps;
  const auto warmup = [&](const std::string& init_from, int64_t steps) {
    TrainOptions options = options_;
    options.init_from = init_from;
    options.steps = steps;
    const absl::StatusOr<RunLength> length = LengthOf(options, 10);
    EXPECT_EQ(length.status(), absl::OkStatus());
    int64_t step = 0;
    while (length->schedule.At(step) < options.peak_lr()) ++step;
    return step + 1;
  };
  EXPECT_EQ(warmup("", 10000), 20);
  EXPECT_EQ(warmup("", 150), 15);
  EXPECT_EQ(warmup("", 1), 1);
  EXPECT_EQ(warmup("model", 10000), 300);
  EXPECT_EQ(warmup("model", 100), 3);
  EXPECT_EQ(warmup("model", 1), 1);
}

TEST_F(RunInputTest, StepsBeyondTheEndAreNotTraced) {
  options_.trace = "6:7";
  options_.epochs = 2;
  EXPECT_THAT(
      Open().status().ToString(),
      HasSubstr("--trace=6:7: the first step to trace is beyond the last step of the run, 5"));
  options_.trace = "5:7";
  EXPECT_EQ(Open().status(), absl::OkStatus());
  options_.epochs = 0;
  options_.steps = 4;
  EXPECT_THAT(Open().status().ToString(), HasSubstr("beyond the last step of the run, 4"));
}

TEST_F(RunInputTest, EpochsBeyondCountingAreRefused) {
  options_.epochs = 1e300;
  EXPECT_THAT(Open().status().ToString(), HasSubstr("--epochs=1e+300: this is 2.5e+300 steps"));
}

}  // namespace
}  // namespace zeroth
