// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer as several processes that torchrun has started.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/nccl/testing/nccl_gpus.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

struct RankLogs {
  std::vector<pid_t> children;
  std::vector<fs::path> logs;
};

// `ranks` of a world of `world_size`, each with its own log.
RankLogs StartRanks(const std::vector<int>& ranks, int world_size, const Flags& flags) {
  RankLogs started;
  for (int rank : ranks) {
    const fs::path log = Scratch() / absl::StrCat("log.", rank);
    const Environment environment = {
        {"RANK", absl::StrCat(rank)},
        {"LOCAL_RANK", absl::StrCat(rank)},
        {"WORLD_SIZE", absl::StrCat(world_size)},
        {"LOCAL_WORLD_SIZE", absl::StrCat(world_size)},
        {"ZEROTH_RENDEZVOUS_FILE", (Scratch() / "rendezvous").string()}};
    started.children.push_back(Start(flags, log, "", environment));
    started.logs.push_back(log);
  }
  return started;
}

Flags OnCuda(const fs::path& out, const std::string& back_end) {
  return With(Reference(out), {"--device=cuda", "--comm=" + back_end, "--batch_size=4"});
}

void ExpectSuccess(const RankLogs& ranks) {
  for (size_t i = 0; i < ranks.children.size(); ++i) {
    EXPECT_EQ(Wait(ranks.children[i]), 0) << Logs(ranks.logs[i]);
  }
}

// Trains in `world_size` processes, each with `more` options, and expects the bits of a run with
// `flags` on that many threads. Returns the processes' logs.
RankLogs ExpectTheBitsOfThreads(int world_size, const Flags& flags, const Flags& more = {}) {
  std::vector<int> all(static_cast<size_t>(world_size));
  std::iota(all.begin(), all.end(), 0);
  RankLogs ranks =
      StartRanks(all, world_size, With(With(OnCuda(Scratch() / "nccl", "nccl"), flags), more));
  ExpectSuccess(ranks);
  const Outcome local = RunTrainer(With(OnCuda(Scratch() / "local", "local"),
                                        With(flags, {absl::StrCat("--world_size=", world_size)})));
  EXPECT_EQ(local.exit_code, 0) << local.output;
  const fs::path weights = fs::path("final") / "model.safetensors";
  const std::string bits = Read(Scratch() / "nccl" / weights);
  EXPECT_GT(bits.size(), 1000u);
  EXPECT_TRUE(bits == Read(Scratch() / "local" / weights));
  return ranks;
}

TEST(TrainNcclTest, ProcessesTrainTheBitsOfThreads) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(4);
  const Flags shared = {"--steps=2", "--strategy=hybrid_shard", "--shard_size=2", "--batch_size=2",
                        "--param_dtype=bf16"};
  const RankLogs ranks = ExpectTheBitsOfThreads(4, shared);
  EXPECT_TRUE(absl::StrContains(Logs(ranks.logs[0]), "hybrid_shard over 4 ranks"));
  if (NcclIsEmulated()) {
    EXPECT_TRUE(absl::StrContains(Logs(ranks.logs[0]), "gathers   by copy engines (NCCL "))
        << Logs(ranks.logs[0]);
  }
  // Only one rank prints.
  EXPECT_EQ(Logs(ranks.logs[1]), "");
}

// Two tensor ranks of each of two data ranks. With Muon, so that matrices are assembled from their
// parts over both axes; AdamW updates the other parameters.
TEST(TrainNcclTest, TensorRanksTrainTheBitsOfThreadsAndTheNumbersOfAWholeModelOnACpu) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(4);
  const Flags shared = {"--steps=2", "--strategy=full_shard", "--batch_size=1", "--optimizer=muon",
                        "--muon_precision=fp32"};
  ExpectTheBitsOfThreads(4, With(shared, {"--tensor_parallel=2"}));
  const Outcome cpu =
      RunTrainer(With(Reference(Scratch() / "cpu"), With(shared, {"--world_size=2"})));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.output;
  const std::vector<nlohmann::json> steps = StepFacts(Scratch() / "nccl");
  const std::vector<nlohmann::json> expected = StepFacts(Scratch() / "cpu");
  ASSERT_EQ(steps.size(), 2u);
  ASSERT_EQ(expected.size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    // The tolerances of the recorded runs in float64.
    EXPECT_NEAR(steps[i]["loss"].get<double>(), expected[i]["loss"].get<double>(), 2e-5);
    const double norm = expected[i]["grad_norm"].get<double>();
    EXPECT_NEAR(steps[i]["grad_norm"].get<double>(), norm, 1e-4 * norm);
  }
}

TEST(TrainNcclTest, OneProcessTrainsTheBitsOfOneThread) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(1);
  ExpectTheBitsOfThreads(1, {"--steps=1", "--batch_size=1"});
}

TEST(TrainNcclTest, NightlyProcessesSaveTogetherAndGoOnWithTheSameBits) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(2);
  const fs::path out = Scratch() / "nccl";
  const auto run = [&](const Flags& more) {
    const RankLogs ranks = StartRanks({0, 1}, 2, With(OnCuda(out, "nccl"), more));
    ExpectSuccess(ranks);
    return Logs(ranks.logs[0]);
  };
  run({"--steps=1", "--checkpoint_every=1", "--async_checkpoint"});
  EXPECT_TRUE(fs::exists(out / "step-00000001/rank-00001-of-00002.safetensors"));
  const std::string said = run({"--steps=2", "--checkpoint_every=1", "--resume=auto"});
  EXPECT_TRUE(absl::StrContains(said, "after step 1")) << said;
  const Outcome local =
      RunTrainer(With(OnCuda(Scratch() / "local", "local"), {"--steps=2", "--world_size=2"}));
  ASSERT_EQ(local.exit_code, 0) << local.output;
  const fs::path weights = fs::path("final") / "model.safetensors";
  EXPECT_TRUE(Read(out / weights) == Read(Scratch() / "local" / weights));
}

TEST(TrainNcclTest, NightlyRecordedStepsOfProcessesHaveTheBitsOfEnqueuedOnes) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(2);
  ExpectTheBitsOfThreads(2, {"--steps=5", "--param_dtype=bf16", "--batch_size=2"},
                         {"--cuda_graphs"});
}

TEST(TrainNcclTest, ARankThatIsMissingIsNamed) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(3);
  const RankLogs ranks = StartRanks(
      {0, 2}, 3, With(OnCuda(Scratch() / "out", "nccl"), {"--batch_size=1", "--comm_timeout=2s"}));
  for (size_t i = 0; i < ranks.children.size(); ++i) {
    EXPECT_EQ(Wait(ranks.children[i]), 1);
    const std::string said = Logs(ranks.logs[i]);
    EXPECT_TRUE(absl::StrContains(said, "of 3 ranks, rank 1 did not come")) << said;
  }
}

TEST(TrainNcclTest, ARankThatIsKilledEndsTheRunWithItsName) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(2);
  const RankLogs ranks =
      StartRanks({0, 1}, 2, With(OnCuda(Scratch() / "out", "nccl"), {"--steps=100000"}));
  // Once it trains.
  while (Metrics(Scratch() / "out").size() < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_EQ(kill(ranks.children[1], SIGKILL), 0);
  EXPECT_EQ(Wait(ranks.children[1]), -1);
  EXPECT_EQ(Wait(ranks.children[0]), 1);
  const std::string said = Logs(ranks.logs[0]);
  EXPECT_TRUE(absl::StrContains(said, "rank 1 failed: ")) << said;
}

TEST(TrainNcclTest, AWorldSizeThatWasNotStartedIsRefused) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(1);
  const RankLogs ranks =
      StartRanks({0}, 2, With(OnCuda(Scratch() / "out", "nccl"), {"--world_size=3"}));
  EXPECT_EQ(Wait(ranks.children[0]), 1);
  const std::string said = Logs(ranks.logs[0]);
  EXPECT_TRUE(absl::StrContains(said, "--world_size=3")) << said;
  EXPECT_TRUE(absl::StrContains(said, "2 ranks have been started")) << said;
}

}  // namespace
}  // namespace zeroth::testing
