// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The public Python package "tensorboard" reads the event files of the trainer: the numbers are
// those of metrics.jsonl, and a resumed run continues where it was resumed.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"
#include "zeroth/tests/interop/python.h"

namespace zeroth {
namespace {

using testing::Flags;
using testing::fs::path;

nlohmann::json Events(const path& out) {
  const PythonOutcome read = RunPython("event_listing.py", {out});
  EXPECT_TRUE(read.ok()) << read.errors;
  return read.ok() ? nlohmann::json::parse(read.output) : nlohmann::json::object();
}

std::map<std::string, int> EventFiles(const path& out) {
  std::map<std::string, int> files;
  for (const auto& entry : testing::fs::directory_iterator(out)) {
    const std::string name = entry.path().filename();
    if (name.rfind("events.out.tfevents.", 0) == 0) ++files[name];
  }
  return files;
}

void WriteText(const path& path) {
  std::string words;
  for (int i = 0; i < 400; ++i) words += "word " + std::to_string(i * i) + "\n";
  testing::Write(path, words);
}

// TensorBoard's values of the steps in metrics.jsonl.
void ExpectEventsAreMetrics(const path& out) {
  const nlohmann::json scalars = Events(out)["scalars"];
  for (const auto& [tag, key] :
       {std::pair("train/loss", "loss"),
        {"train/gradient_norm", "grad_norm"},
        {"train/learning_rate", "lr"},
        {"speed/tokens_per_second", "tokens_per_second"},
        {"speed/seconds_waited_for_data", "data_seconds"},
        {"speed/seconds_waited_for_communication", "communication_seconds"},
        {"speed/gemm_utilization", "gemm_utilization"},
        {"speed/mfu", "mfu"},
        {"evaluation/loss", "eval_loss"}}) {
    nlohmann::json expected = nlohmann::json::array();
    for (const nlohmann::json& line : testing::Metrics(out)) {
      if (line.contains(key)) expected.push_back({line["step"], line[key].get<float>()});
    }
    ASSERT_TRUE(scalars.contains(tag)) << tag;
    ASSERT_EQ(scalars[tag].size(), expected.size()) << tag;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(scalars[tag][i][0], expected[i][0]) << tag;
      EXPECT_EQ(scalars[tag][i][1].get<float>(), expected[i][1].get<float>()) << tag;
    }
  }
}

TEST(TensorboardTest, ReadsTheEventsOfRunsAndOfResumedOnes) {
  if (!PythonHas("tensorboard.backend.event_processing.event_accumulator")) {
    GTEST_SKIP() << HowToGetPythonPackages();
  }
  const path out = testing::Scratch() / "out";
  const path text = testing::Scratch() / "text";
  WriteText(text);
  const Flags flags = {"--data=" + text.string(),
                       "--eval_data=" + text.string(),
                       "--out=" + out.string(),
                       "--steps=6",
                       "--eval_every=2",
                       "--eval_batches=1",
                       "--seq_len=16",
                       "--batch_size=2",
                       "--checkpoint_every=2",
                       "--keep_last=0",
                       "--peak_tflops=100",
                       "--sample_tokens=8"};
  const auto run = testing::RunTrainer(flags);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  ASSERT_EQ(EventFiles(out).size(), 1u);
  ExpectEventsAreMetrics(out);
  const nlohmann::json events = Events(out);
  for (const char* tag : {"memory/peak_MiB", "memory/peak_MiB_of_optimizer"}) {
    ASSERT_TRUE(events["scalars"].contains(tag)) << events["scalars"];
    EXPECT_GT(events["scalars"][tag][0][1].get<double>(), 0) << tag;
  }
  ASSERT_EQ(events["texts"]["sample"].size(), 1u) << events["texts"];
  EXPECT_EQ(events["texts"]["sample"][0][0], 6);

  // The steps after the fourth are repeated, and those of the first run dropped.
  const auto resumed =
      testing::RunTrainer(testing::With(flags, {"--resume=" + (out / "step-00000004").string()}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  ASSERT_EQ(EventFiles(out).size(), 2u);
  ExpectEventsAreMetrics(out);

  // A run started with --overwrite has no history.
  const auto anew = testing::RunTrainer(testing::With(flags, {"--overwrite"}));
  ASSERT_EQ(anew.exit_code, 0) << anew.errors;
  EXPECT_EQ(EventFiles(out).size(), 1u);
  const auto without =
      testing::RunTrainer(testing::With(flags, {"--overwrite", "--tensorboard=false"}));
  ASSERT_EQ(without.exit_code, 0) << without.errors;
  EXPECT_TRUE(EventFiles(out).empty());
}

// Non-finite values are kept.
TEST(TensorboardTest, KeepsWhatIsNotFinite) {
  if (!PythonHas("tensorboard.backend.event_processing.event_accumulator")) {
    GTEST_SKIP() << HowToGetPythonPackages();
  }
  const path text = testing::Scratch() / "text";
  WriteText(text);
  const path out = testing::Scratch() / "out";
  const auto run = testing::RunTrainer(
      {"--data=" + text.string(), "--out=" + out.string(), "--steps=6", "--seq_len=16", "--lr=1e38",
       "--lr_schedule=constant", "--warmup_steps=0", "--on_nonfinite=skip", "--sample_tokens=0"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  bool seen = false;
  const nlohmann::json events = Events(out);
  for (const nlohmann::json& event : events["scalars"]["train/gradient_norm"]) {
    seen = seen || event[1].is_string();
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace zeroth
