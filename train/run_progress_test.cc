// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_progress.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunProgress Example() {
  RunProgress progress;
  progress.steps = 12;
  progress.trainer.optimizer_steps = 11;
  progress.trainer.ema_updates = 10;
  progress.trainer.losses = {2, {0.1, 1e-300}};
  progress.trainer.loss_scaler = LossScaler::State{1024, 7};
  progress.skipped_steps = 1;
  progress.sequences = 12 * 32;
  progress.data = {1000, 16, ~uint64_t{0}, false};
  progress.flags = ResultFlags(TrainOptions());
  return progress;
}

TEST(RunProgressTest, ReadsBack) {
  for (const bool scaled : {false, true}) {
    RunProgress progress = Example();
    if (!scaled) progress.trainer.loss_scaler.reset();
    const auto json = nlohmann::json::parse(progress.ToJson().dump());
    const auto read = RunProgress::FromJson(json, "here");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->ToJson(), json);
    EXPECT_EQ(read->data, progress.data);
    EXPECT_EQ(read->trainer.loss_scaler.has_value(), scaled);
    EXPECT_EQ(read->trainer.optimizer_steps, 11);
    EXPECT_EQ(read->trainer.losses.window, progress.trainer.losses.window);
  }
}

TEST(RunProgressTest, EveryMemberIsNeededAndChecked) {
  const nlohmann::json good = Example().ToJson();
  for (const char* path : {"/steps", "/optimizer_steps", "/skipped_steps", "/sequences", "/data",
                           "/flags", "/data/tokens", "/data/seq_len", "/data/seed", "/data/shuffle",
                           "/loss_scaler/scale", "/loss_scaler/finite_steps"}) {
    const nlohmann::json::json_pointer pointer(path);
    const std::string key = "\"" + pointer.back() + "\"";
    nlohmann::json bad = good;
    bad[pointer] = "x";
    for (const nlohmann::json& json : {bad, [&] {
                                         nlohmann::json missing = good;
                                         missing[pointer.parent_pointer()].erase(pointer.back());
                                         return missing;
                                       }()}) {
      const auto read = RunProgress::FromJson(json, "dir/index.json");
      EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << path;
      EXPECT_THAT(std::string(read.status().message()), HasSubstr(key));
    }
  }
  nlohmann::json negative = good;
  negative["steps"] = -1;
  EXPECT_FALSE(RunProgress::FromJson(negative, "x").ok());
  EXPECT_FALSE(RunProgress::FromJson(nlohmann::json::array(), "x").ok());
}

TEST(RunProgressTest, NamesTheFlagsThatChanged) {
  TrainOptions options;
  const nlohmann::json before = ResultFlags(options);
  EXPECT_TRUE(ChangedFlags(before, ResultFlags(options)).empty());
  options.lr = 0.5;
  options.lr_schedule = "constant";
  EXPECT_THAT(ChangedFlags(before, ResultFlags(options)),
              ElementsAre("--lr is 0.5, was 0.001", "--lr_schedule is constant, was cosine"));
}

TEST(RunProgressTest, RanksAndStrategiesChangeNothingOfADeterministicBatch) {
  TrainOptions options;
  options.deterministic_batch = 8;
  const nlohmann::json before = ResultFlags(options);
  options.world_size = 4;
  options.grad_accum = 2;
  options.strategy = "hybrid_shard";
  options.shard_size = 2;
  EXPECT_TRUE(ChangedFlags(before, ResultFlags(options)).empty());
  options.deterministic_batch = 16;
  EXPECT_THAT(ChangedFlags(before, ResultFlags(options)),
              ElementsAre("--deterministic_batch is 16, was 8"));
  options.deterministic_batch = 0;
  EXPECT_THAT(ChangedFlags(before, ResultFlags(options)),
              ElementsAre("--deterministic_batch is 0, was 8"));
}

}  // namespace
}  // namespace zeroth
