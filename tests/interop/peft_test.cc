// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Adapters that the trainer writes, as PEFT reads them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"
#include "zeroth/tests/interop/python.h"
#include "zeroth/tools/model/loaded_model.h"

namespace zeroth::testing {
namespace {

// The script's exit code for "no such package".
constexpr int kNoPackage = 77;

struct Case {
  const char* name;
  const char* model;
  Flags flags;
  bool stacks_experts = false;  // transformers does, and the test's own file of the model does not
};

class PeftTest : public ::testing::TestWithParam<Case> {};

TEST_P(PeftTest, ReadsTheTrainersAdapterWithTheSameLogits) {
  std::string base = absl::StrCat("tests/testdata/", GetParam().model);
  const std::string data = "--data=" + base + "/tokens.npy";
  const fs::path out = Scratch() / "out";
  if (GetParam().stacks_experts) {
    const fs::path stacked = Scratch() / "base";
    const Outcome exported = RunTrainer({"--init_from=" + base, data, "--seq_len=32", "--steps=0",
                                         "--batch_size=4", "--out=" + stacked.string()});
    ASSERT_EQ(exported.exit_code, 0) << exported.output;
    base = (stacked / "final").string();
  }
  const Outcome run =
      RunTrainer(With({"--init_from=" + base, data, "--seq_len=32", "--lr=3e-2", "--batch_size=4",
                       "--sample_tokens=0", "--steps=4", "--lora_rank=3", "--lora_alpha=5",
                       "--lora_export=both", "--out=" + out.string()},
                      GetParam().flags));
  ASSERT_EQ(run.exit_code, 0) << run.output;

  LoadModelOptions options;
  options.model = (out / "final").string();
  const auto merged = LoadedModel::Open(options);
  ASSERT_TRUE(merged.ok()) << merged.status();
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 24; ++i) ids.push_back(i * 37 % 256);
  const auto tensor = (*merged)->Logits(ids, 0, nullptr);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const auto logits = tensor->ToHost<float>();
  ASSERT_TRUE(logits.ok()) << logits.status();
  nlohmann::json expected = {{"ids", ids}, {"logits", nlohmann::json::array()}};
  const size_t columns = logits->size() / ids.size();
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto row = logits->begin() + static_cast<std::ptrdiff_t>(i * columns);
    expected["logits"].push_back(std::vector<float>(row, row + static_cast<int64_t>(columns)));
  }
  Write(out / "expected.json", expected.dump());
  const PythonOutcome outcome =
      RunPython("check_peft.py", {base, (out / "final_adapter").string(), out / "expected.json"});
  if (outcome.exit_code == kNoPackage) GTEST_SKIP() << HowToGetTransformers();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
}

INSTANTIATE_TEST_SUITE_P(
    Adapters, PeftTest,
    ::testing::Values(Case{"lora", "llama_tiny", {}},
                      Case{"rslora", "llama_tiny", {"--lora_rslora", "--lora_targets=q_proj"}},
                      Case{"saved", "llama_tiny", {"--lora_modules_to_save=embed_tokens,lm_head"}},
                      Case{"tied", "llama31_tiny", {"--lora_modules_to_save=embed_tokens"}},
                      Case{"dora", "llama_tiny", {"--lora_dora"}},
                      Case{"transposed_dora", "gpt2_tiny", {"--lora_dora"}},
                      Case{"transposed", "gpt2_tiny", {}}, Case{"experts", "qwen3_moe_tiny", {}},
                      Case{"mixtral", "mixtral_tiny", {}},
                      Case{"sinks", "gpt_oss_tiny", {"--lora_targets=all_but_experts"}, true}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace zeroth::testing
