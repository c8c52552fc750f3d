// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer on each family: its exports as transformers reads them; recomputed activations,
// adapters and resumed runs, to the bit.

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"
#include "zeroth/tests/interop/python.h"

namespace zeroth::testing {
namespace {

// The script's exit code for "no such package".
constexpr int kNoPackage = 77;

class FamilyTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string Recorded() const { return std::string("tests/testdata/") + GetParam(); }

  // Four steps, with a checkpoint after each two; returns the model in final/.
  std::string Train(const fs::path& out, const Flags& more) {
    const Outcome run = RunTrainer(
        With({"--init_from=" + Recorded(), "--data=" + Recorded() + "/tokens.npy", "--seq_len=32",
              "--lr=1e-2", "--batch_size=2", "--world_size=2", "--sample_tokens=0", "--steps=4",
              "--checkpoint_every=2", "--keep_last=0", "--out=" + out.string()},
             more));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return Read(out / "final/model.safetensors");
  }
};

TEST_P(FamilyTest, WhatIsExportedIsWhatTransformersReads) {
  const fs::path out = Scratch() / "out";
  Train(out, {"--steps=0", "--checkpoint_every=0", "--keep_last=2"});
  // The file's settings of rotary positions, sizes and experts are kept.
  nlohmann::json before = nlohmann::json::parse(Read(Recorded() + "/config.json"));
  if (before.contains("text_config")) before = nlohmann::json(before["text_config"]);
  const nlohmann::json after = nlohmann::json::parse(Read(out / "final/config.json"));
  for (const char* key :
       {"model_type", "architectures", "rope_theta", "rope_scaling", "rope_parameters",
        "sliding_window", "tie_word_embeddings", "hidden_size", "intermediate_size", "head_dim",
        "num_key_value_heads", "rms_norm_eps", "num_local_experts", "num_experts_per_tok",
        "moe_intermediate_size", "norm_topk_prob", "mlp_only_layers"}) {
    if (!before.contains(key) || before[key].is_null()) continue;
    // Qwen's files have a window also where no layer uses it.
    if (key == std::string("sliding_window") && !before.value("use_sliding_window", true)) continue;
    EXPECT_EQ(after.value(key, nlohmann::json()), before[key]) << key;
  }
  EXPECT_EQ(after.contains("rope_parameters"), before.contains("rope_parameters"));
  const PythonOutcome outcome =
      RunPython("check_transformers.py", {(out / "final").string(), Recorded()});
  if (outcome.exit_code == kNoPackage) GTEST_SKIP() << HowToGetTransformers();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
}

TEST_P(FamilyTest, RecomputedAndResumedRunsHaveTheSameBits) {
  for (const Flags& adapters : {Flags{}, Flags{"--lora_rank=2"}}) {
    SCOPED_TRACE(adapters.empty() ? "in full" : "adapters");
    const fs::path out = Scratch() / (adapters.empty() ? "full" : "lora");
    const std::string plain = Train(out / "plain", adapters);
    EXPECT_NE(plain, Read(Recorded() + "/model.safetensors"));
    for (const std::string what : {"block", "selective", "elementwise"}) {
      const Flags recomputes = With(adapters, {"--activation_checkpointing=" + what});
      EXPECT_TRUE(Train(out / what, recomputes) == plain) << what;
    }
    const Flags resumes = With(adapters, {"--resume=" + (out / "plain/step-00000002").string()});
    EXPECT_TRUE(Train(out / "resumed", resumes) == plain);
  }
}

TEST(ModelOfImagesTest, SaysThatTheTextModelAloneIsTrained) {
  const std::string model = "tests/testdata/gemma3_vision_tiny";
  const Flags flags = {"--init_from=" + model, "--data=" + model + "/tokens.npy",
                       "--seq_len=32",         "--steps=1",
                       "--batch_size=2",       "--sample_tokens=0",
                       "--lora_rank=2"};
  const Outcome run = RunTrainer(With(flags, {"--out=" + (Scratch() / "out").string()}));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("the language model alone: the vision tower"), std::string::npos)
      << run.output;
  const Outcome adapter =
      RunTrainer(With(flags, {"--lora_export=both", "--out=" + (Scratch() / "adapter").string()}));
  EXPECT_NE(adapter.exit_code, 0);
  EXPECT_NE(adapter.output.find("write the text model alone by tools/convert"), std::string::npos)
      << adapter.output;
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyTest,
                         ::testing::Values("gemma2_tiny", "gemma3_tiny", "gemma3_vision_tiny",
                                           "llama31_tiny", "dots1_tiny", "gpt_oss_tiny",
                                           "qwen2_moe_tiny", "mistral_tiny", "mixtral_tiny",
                                           "olmo2_tiny", "phi3_tiny", "qwen2_tiny", "qwen3_5_tiny",
                                           "qwen3_moe_tiny", "qwen3_tiny"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace zeroth::testing
