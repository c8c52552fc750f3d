// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares plans for the presets H100 and H200 with the steps of this trainer on one of each: every
// row of docs/gpu_results.md, within 10 %.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/nn/language_model.h"
#include "zeroth/options/options.h"
#include "zeroth/plan/machine_file.h"
#include "zeroth/plan/plan.h"
#include "zeroth/train/model_source.h"

namespace zeroth {
namespace {

struct Row {
  std::string machine;
  std::string model;
  int64_t layers = 0;  // 0: as the preset has them
  int64_t batch_size = 1;
  int64_t seq_len = 1024;
  double measured = 0;  // tokens per second, the median
  ActivationCheckpointing checkpointing = ActivationCheckpointing::kNone;
  Fp8Recipe fp8 = Fp8Recipe::kNone;
};

TEST(MeasuredRowsTest, PlansAreWithinATenthOfWhatRan) {
  const std::vector<Row> rows = {
      {"H200", "gpt2_124m", 0, 64, 1024, 567.5e3},
      {"H200", "gpt2_124m", 0, 4, 1024, 379e3},
      {"H200", "gpt2_1558m", 0, 16, 1024, 50.5e3},
      {"H200", "llama_1b", 0, 16, 2048, 76e3},
      {"H200", "llama_1b", 0, 16, 2048, 93e3, ActivationCheckpointing::kNone,
       Fp8Recipe::kTensorwise},
      {"H200", "llama3_8b", 4, 1, 8192, 55.5e3},
      {"H200", "qwen3_0_6b", 0, 8, 2048, 87e3},
      {"H200", "llama32_1b", 0, 8, 2048, 58.5e3, ActivationCheckpointing::kSelective},
      {"H100", "gpt2_124m", 0, 64, 1024, 517.5e3},
      {"H100", "gpt2_124m", 0, 4, 1024, 344e3},
      {"H100", "gpt2_1558m", 0, 16, 1024, 47e3},
      {"H100", "llama_1b", 0, 16, 2048, 70e3},
      {"H100", "llama3_8b", 4, 1, 8192, 45e3},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.machine + ", " + row.model + ", batch " + std::to_string(row.batch_size));
    TrainOptions options;
    options.data = "none";
    options.model = row.model;
    options.world_size = 1;
    options.strategy = "full_shard";
    options.comm = "nccl";
    options.param_dtype = options.reduce_dtype = DType::kBFloat16;
    options.batch_size = row.batch_size;
    options.seq_len = row.seq_len;
    options.activation_checkpointing = row.checkpointing;
    options.fp8 = row.fp8;
    const absl::StatusOr<ModelSource> source = ModelSource::Open(options);
    ASSERT_TRUE(source.ok()) << source.status();
    absl::StatusOr<std::unique_ptr<LanguageModel>> model =
        source->Build(row.layers > 0 ? std::optional<int64_t>(row.layers) : std::nullopt);
    ASSERT_TRUE(model.ok()) << model.status();
    const absl::StatusOr<Machine> machine = OpenMachine(row.machine);
    ASSERT_TRUE(machine.ok()) << machine.status();
    const absl::StatusOr<Plan> plan = PlanRun(options, *machine, *std::move(model));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_NEAR(plan->tokens_per_second_per_rank / row.measured, 1, 0.1);
  }
}

}  // namespace
}  // namespace zeroth
