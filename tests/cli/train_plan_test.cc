// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer with --dry_run, and tools/plan, as processes.

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

// "memory    12.3 MiB at the peak, …".
double PeakMiB(const std::string& plan) {
  const size_t at = plan.find("memory    ");
  return at == std::string::npos ? 0 : std::atof(plan.c_str() + at + 10);
}

TEST(TrainPlanTest, ADryRunSaysWhatTheRunTakesAndLeavesNothing) {
  for (const char* const strategy : {"no_shard", "shard_grad_op", "full_shard"}) {
    const fs::path out = Scratch() / strategy;
    const Flags flags =
        With(Reference(out), {"--world_size=2", std::string("--strategy=") + strategy});
    const Outcome plan = RunTrainer(With(flags, {"--dry_run"}));
    ASSERT_EQ(plan.exit_code, 0) << plan.output;
    EXPECT_FALSE(fs::exists(out));
    EXPECT_NE(plan.output.find(": fits"), std::string::npos) << plan.output;
    const Outcome run = RunTrainer(flags);
    ASSERT_EQ(run.exit_code, 0) << run.output;
    double peak = 0;
    for (const nlohmann::json& line : Metrics(out)) {
      if (line.contains("memory_peak_bytes") && line.contains("step")) {
        peak = std::max(peak, line["memory_peak_bytes"].get<double>());
      }
    }
    ASSERT_GT(peak, 0);
    // Printed with one digit behind the point.
    const double mib = peak / (1024 * 1024);
    EXPECT_NEAR(PeakMiB(plan.output), mib, 0.01 * mib + 0.05) << plan.output;
  }
}

TEST(TrainPlanTest, ADryRunRefusesWhatTheRunWould) {
  const Outcome run =
      RunTrainer(With(Reference(Scratch() / "out"), {"--dry_run", "--strategy=no_such_strategy"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.errors.find("no_such_strategy"), std::string::npos) << run.errors;
  const Outcome gpu =
      RunTrainer(With(Reference(Scratch() / "out"), {"--dry_run", "--machine=H100"}));
  EXPECT_EQ(gpu.exit_code, 1);
  EXPECT_NE(gpu.errors.find("one is a GPU and the other is not"), std::string::npos) << gpu.errors;
  const Outcome graph =
      RunTrainer(With(Reference(Scratch() / "out"), {"--dry_run", "--cuda_graphs"}));
  EXPECT_EQ(graph.exit_code, 1);
  EXPECT_NE(graph.errors.find("--cuda_graphs needs"), std::string::npos) << graph.errors;
}

TEST(TrainPlanTest, ThePlannerNeedsNoDataAndNoGpu) {
  const fs::path log = Scratch() / "log";
  const Flags flags = {
      "--model=llama3_8b", "--world_size=1024", "--machine=H100", "--param_dtype=bf16",
      "--seq_len=8192",    "--batch_size=1",    "--json"};
  ASSERT_EQ(Wait(Start(flags, log, "", {}, "tools/plan/plan")), 0) << Logs(log);
  const nlohmann::json json = nlohmann::json::parse(Read(log), nullptr, false);
  ASSERT_TRUE(json.is_object()) << Logs(log);
  EXPECT_TRUE(json["fits"].get<bool>());
  EXPECT_GT(json["tokens_per_second_per_rank"].get<double>(), 0);
  // What it cannot plan is refused.
  const Flags blocks = {"--model=qwen3_30b_a3b", "--base_dtype=mxfp4", "--lora_rank=8"};
  EXPECT_NE(Wait(Start(blocks, log, "", {}, "tools/plan/plan")), 0);
  EXPECT_NE(Logs(log).find("--base_dtype=mxfp4"), std::string::npos) << Logs(log);
  EXPECT_NE(Logs(log).find("or, to plan, --model=gpt_oss_20b"), std::string::npos) << Logs(log);
  EXPECT_NE(Wait(Start({"--model=gpt2_nano", "--device=cuda"}, log, "", {}, "tools/plan/plan")), 0);
  EXPECT_NE(Logs(log).find("--device=cuda without --machine"), std::string::npos) << Logs(log);
  // The other ranks that a launcher starts print nothing.
  const Environment second = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}};
  ASSERT_EQ(Wait(Start(flags, log, "", second, "tools/plan/plan")), 0) << Logs(log);
  EXPECT_EQ(Logs(log), "");
}

TEST(TrainPlanTest, WhatDoesNotFitComesWithWhatWould) {
  const fs::path log = Scratch() / "log";
  const Flags flags = {"--model=llama3_8b",       "--world_size=8", "--machine=A100-40",
                       "--param_dtype=bf16",      "--seq_len=4096", "--batch_size=2",
                       "--strategy=shard_grad_op"};
  ASSERT_EQ(Wait(Start(flags, log, "", {}, "tools/plan/plan")), 0) << Logs(log);
  EXPECT_NE(Read(log).find("does NOT fit"), std::string::npos) << Read(log);
  EXPECT_NE(Read(log).find("to fit    the fastest changes"), std::string::npos) << Read(log);
}

TEST(TrainPlanTest, ThePlannerFindsTheLargestThatFits) {
  const fs::path log = Scratch() / "log";
  const Flags flags = {"--model=llama3_8b",
                       "--world_size=8",
                       "--machine=H100",
                       "--param_dtype=bf16",
                       "--seq_len=8192",
                       "--batch_size=1",
                       "--json",
                       "--largest",
                       "batch"};
  ASSERT_EQ(Wait(Start(flags, log, "", {}, "tools/plan/plan")), 0) << Logs(log);
  const nlohmann::json json = nlohmann::json::parse(Read(log), nullptr, false);
  ASSERT_TRUE(json.is_object()) << Logs(log);
  EXPECT_EQ(json["largest"], "batch");
  EXPECT_GE(json["value"].get<int>(), 1);
  EXPECT_TRUE(json["plan"]["fits"].get<bool>());
  for (const char* const second : {"--search", "--show_machine", "--measure=cpu.toml"}) {
    const Flags wrong = {"--machine=H100", "--largest=batch", second};
    EXPECT_NE(Wait(Start(wrong, log, "", {}, "tools/plan/plan")), 0);
    EXPECT_NE(Logs(log).find("give only one of these"), std::string::npos) << Logs(log);
  }
}

TEST(TrainPlanTest, APlanReplacesNoRun) {
  const fs::path log = Scratch() / "log";
  const fs::path run = Scratch() / "run-1";
  fs::create_directories(run);
  std::ofstream(run / "config.toml") << "steps = 1\n";
  const Flags flags = {"--machine=H100", "--model=gpt2_nano", "--save=" + run.string()};
  EXPECT_NE(Wait(Start(flags, log, "", {}, "tools/plan/plan")), 0);
  EXPECT_NE(Logs(log).find("expected a folder of the plan's own"), std::string::npos) << Logs(log);
  EXPECT_EQ(Read(run / "config.toml"), "steps = 1\n");
}

TEST(TrainPlanTest, ThePlannerMeasuresTheCpu) {
  const fs::path log = Scratch() / "log";
  const fs::path file = Scratch() / "cpu.toml";
  ASSERT_EQ(Wait(Start({"--measure=" + file.string()}, log, "", {}, "tools/plan/plan")), 0)
      << Logs(log);
  EXPECT_NE(Read(file).find("link_bandwidth = "), std::string::npos) << Read(file);
  // An existing file is kept.
  EXPECT_NE(Wait(Start({"--measure=" + file.string()}, log, "", {}, "tools/plan/plan")), 0);
  EXPECT_NE(Logs(log).find("exists; name another path, or say --overwrite"), std::string::npos)
      << Logs(log);
  const Flags ranks = {"--measure=" + (Scratch() / "ranks.toml").string(), "--world_size=4"};
  EXPECT_NE(Wait(Start(ranks, log, "", {}, "tools/plan/plan")), 0);
  EXPECT_NE(Logs(log).find("start the ranks by mpirun"), std::string::npos) << Logs(log);
  EXPECT_NE(Wait(Start({"--measure=cpu.txt"}, log, "", {}, "tools/plan/plan")), 0);
  EXPECT_NE(Logs(log).find("ends in .toml"), std::string::npos) << Logs(log);
}

}  // namespace
}  // namespace zeroth::testing
