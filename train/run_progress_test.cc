// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/train/resume.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RunProgress Example() {
  RunProgress progress;
  progress.steps = 12;
  progress.trainer.optimizer_steps = 11;
  progress.trainer.ema_updates = 10;
  progress.trainer.losses = {2, {0.1, 1e-300}};
  progress.trainer.loss_scaler = LossScaler::State{1024, 7};
  progress.skipped_steps = 1;
  progress.sequences = 12 * 32;
  progress.data = {1000, ~uint64_t{1}, 16, ~uint64_t{0}, false};
  progress.flags = {{"lr", 0.1}};
  progress.model = {{"n_embd", 8}};
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
  for (const char* path : {"/data/content", "/model"}) {
    nlohmann::json json = good;
    json[nlohmann::json::json_pointer(path)] = 3;
    EXPECT_FALSE(RunProgress::FromJson(json, "x").ok()) << path;
    const nlohmann::json::json_pointer pointer(path);
    json[pointer.parent_pointer()].erase(pointer.back());
    EXPECT_TRUE(RunProgress::FromJson(json, "x").ok()) << "an earlier version's, without " << path;
  }
  nlohmann::json negative = good;
  negative["steps"] = -1;
  EXPECT_FALSE(RunProgress::FromJson(negative, "x").ok());
  EXPECT_FALSE(RunProgress::FromJson(nlohmann::json::array(), "x").ok());
}

TEST(RunProgressTest, SaysWhatIsOtherInTheData) {
  const DataOrder before = {1000, 7, 16, 5, true};
  EXPECT_THAT(before.Differences(before), IsEmpty());
  // Written by a version that did not know the content.
  DataOrder unknown = before;
  unknown.content = 0;
  EXPECT_THAT(before.Differences(unknown), IsEmpty());
  DataOrder now = before;
  now.content = 8;
  EXPECT_THAT(now.Differences(before), ElementsAre("--data: as many tokens, but other ones"));
  now = {900, 8, 32, 6, false};
  EXPECT_THAT(now.Differences(before), ElementsAre("--data: the number of tokens is 900, was 1000",
                                                   "--seq_len is 32, was 16", "--seed is 6, was 5",
                                                   "--shuffle is false, was true"));
}

}  // namespace
}  // namespace zeroth
