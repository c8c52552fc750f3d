// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The trainer as several processes that mpirun has started.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/mpi/testing/mpirun.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

constexpr char kWeights[] = "final/model.safetensors";

Mpirun Ranks(int ranks, const Flags& flags) {
  Mpirun run;
  run.ranks = ranks;
  run.program = {fs::absolute("train/train").string()};
  run.program.insert(run.program.end(), flags.begin(), flags.end());
  return run;
}

// Flags of equal runs that write to `out`, with ranks as MPI processes and as threads.
Flags ByMpi(const fs::path& out, const Flags& more) {
  return With(Reference(out), With({"--comm=mpi", "--batch_size=2"}, more));
}
Flags ByThreads(const fs::path& out, int ranks, const Flags& more) {
  return With(Reference(out), With({absl::StrCat("--world_size=", ranks), "--batch_size=2"}, more));
}

// Waits until the run trains, and fails if it ends before.
void AwaitTraining(pid_t mpirun, const fs::path& out, const std::string& log) {
  siginfo_t ended = {};
  while (Metrics(out).size() < 2 && ended.si_pid == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(mpirun), &ended, WEXITED | WNOHANG | WNOWAIT), 0);
  }
  ASSERT_EQ(ended.si_pid, 0) << Read(log);
}

class TrainMpiTest : public ::testing::Test {
 protected:
  void SetUp() override { ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi); }
};

TEST_F(TrainMpiTest, ProcessesTrainTheBitsOfThreads) {
  const Flags shared = {"--steps=2", "--strategy=hybrid_shard", "--shard_size=2",
                        "--param_dtype=bf16"};
  const fs::path out = Scratch() / "mpi";
  const MpirunOutcome ranks = RunMpirun(Ranks(4, ByMpi(out, shared)));
  EXPECT_EQ(ranks.exit_code, 0) << ranks.output;
  EXPECT_TRUE(absl::StrContains(ranks.output, "hybrid_shard over 4 ranks")) << ranks.output;
  const Outcome local = RunTrainer(ByThreads(Scratch() / "local", 4, shared));
  ASSERT_EQ(local.exit_code, 0) << local.output;
  const std::string bits = Read(out / kWeights);
  EXPECT_GT(bits.size(), 1000u);
  EXPECT_TRUE(bits == Read(Scratch() / "local" / kWeights));
}

// The planner's file describes the collectives over MPI.
TEST_F(TrainMpiTest, ThePlannerMeasuresProcesses) {
  const fs::path file = Scratch() / "node.toml";
  Mpirun run;
  run.ranks = 2;
  run.program = {fs::absolute("tools/plan/plan").string(), "--measure=" + file.string()};
  const MpirunOutcome ranks = RunMpirun(run);
  ASSERT_EQ(ranks.exit_code, 0) << ranks.output;
  const std::string text = Read(file);
  for (const char* const field : {"fp32_flops", "link_bandwidth", "link_latency"}) {
    const size_t at = text.find(absl::StrCat("\n", field, " = "));
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_GT(std::atof(text.c_str() + text.find('=', at) + 1), 0) << text;
  }
  EXPECT_TRUE(absl::StrContains(text, "\nlink_rates = [\n  [1.04858e+06, ")) << text;
}

// Not two concurrent runs.
TEST_F(TrainMpiTest, WithoutCommAndOutProcessesAreOneRunInOneDirectory) {
  const fs::path home = Scratch() / "home";
  fs::create_directories(home);
  const fs::path model = fs::absolute("tests/testdata/gpt2_tiny");
  const Mpirun run = Ranks(2, With(Reference(""), {"--init_from=" + model.string(),
                                                   "--data=" + (model / "tokens.npy").string(),
                                                   "--batch_size=2", "--steps=1"}));
  setenv("BUILD_WORKING_DIRECTORY", home.c_str(), 1);
  const MpirunOutcome ranks = RunMpirun(run);
  unsetenv("BUILD_WORKING_DIRECTORY");
  EXPECT_EQ(ranks.exit_code, 0) << ranks.output;
  EXPECT_TRUE(absl::StrContains(ranks.output, "full_shard over 2 ranks")) << ranks.output;
  EXPECT_TRUE(absl::StrContains(ranks.output, "(cpu, mpi)")) << ranks.output;
  EXPECT_TRUE(fs::exists(home / "zeroth_out/run-1" / kWeights));
  EXPECT_FALSE(fs::exists(home / "zeroth_out/run-2"));
  EXPECT_EQ(fs::read_symlink(home / "zeroth_out/latest"), "run-1");
}

TEST_F(TrainMpiTest, ThreadsResumeWhatProcessesSaved) {
  const fs::path out = Scratch() / "mpi";
  const MpirunOutcome ranks =
      RunMpirun(Ranks(4, ByMpi(out, {"--steps=1", "--checkpoint_every=1", "--async_checkpoint"})));
  EXPECT_EQ(ranks.exit_code, 0) << ranks.output;
  EXPECT_TRUE(fs::exists(out / "step-00000001/rank-00003-of-00004.safetensors"));
  const Outcome resumed =
      RunTrainer(ByThreads(out, 4, {"--steps=2", "--checkpoint_every=1", "--resume=auto"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_TRUE(absl::StrContains(resumed.output, "after step 1")) << resumed.output;
  const Outcome local = RunTrainer(ByThreads(Scratch() / "local", 4, {"--steps=2"}));
  ASSERT_EQ(local.exit_code, 0) << local.output;
  EXPECT_TRUE(Read(out / kWeights) == Read(Scratch() / "local" / kWeights));
}

// Each would silently train on other data.
TEST_F(TrainMpiTest, RanksWithOtherFlagsOrOtherDataAreRefused) {
  fs::create_directories(Scratch());
  for (const char* const rank : {"0", "1"}) {
    std::ofstream(Scratch() / absl::StrCat("text", rank)) << std::string(4000, 'a') << rank;
  }
  const auto differs = [](const Flags& more) {
    Mpirun run = Ranks(2, ByMpi(Scratch() / "out", With({"--steps=1"}, more)));
    const std::string command = absl::StrJoin(run.program, " ");
    run.program = {"/bin/sh", "-c", "R=$OMPI_COMM_WORLD_RANK; exec " + command};
    const MpirunOutcome ranks = RunMpirun(run);
    EXPECT_EQ(ranks.exit_code, 1) << ranks.output;
    EXPECT_FALSE(fs::exists(Scratch() / "out/metrics.jsonl"));
    return ranks.output;
  };
  const std::string flags = differs({"--seed=4$R", "--sample_every=$R"});
  EXPECT_TRUE(
      absl::StrContains(flags,
                        "rank 1 failed: has other flags or data than rank 0: sample_every is 1, "
                        "was 0; seed is 41, was 40; give all ranks"))
      << flags;
  const std::string data =
      differs({"--tokenizer=byte", "--data=" + (Scratch() / "text").string() + "$R"});
  EXPECT_TRUE(absl::StrContains(data, "than rank 0: data is 4002 tokens")) << data;
}

TEST_F(TrainMpiTest, AWorldSizeThatWasNotStartedIsRefused) {
  const MpirunOutcome ranks =
      RunMpirun(Ranks(2, ByMpi(Scratch() / "out", {"--steps=1", "--world_size=3"})));
  EXPECT_EQ(ranks.exit_code, 1);
  EXPECT_TRUE(absl::StrContains(ranks.output, "--world_size=3")) << ranks.output;
  EXPECT_TRUE(absl::StrContains(ranks.output, "2 ranks have been started")) << ranks.output;
}

// A laptop may have no MPI.
TEST(TrainWithoutMpiTest, AMissingLibraryIsSaid) {
  setenv("ZEROTH_MPI_LIBRARY", "/nowhere/libmpi.so", 1);
  const Outcome alone = RunTrainer(ByMpi(Scratch() / "out", {"--steps=1"}));
  unsetenv("ZEROTH_MPI_LIBRARY");
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_TRUE(absl::StrContains(alone.errors, "/nowhere/libmpi.so")) << alone.output;
  EXPECT_TRUE(absl::StrContains(alone.errors, "install Open MPI or MPICH")) << alone.output;
}

// An error on all ranks is reported before mpirun can end them for it.
TEST_F(TrainMpiTest, AnErrorOfTheRunIsSaid) {
  const MpirunOutcome ranks =
      RunMpirun(Ranks(2, ByMpi(Scratch() / "out", {"--steps=1", "--memory_limit=1MiB"})));
  EXPECT_EQ(ranks.exit_code, 1);
  EXPECT_TRUE(absl::StrContains(ranks.output, "above the memory limit of 1048576")) << ranks.output;
}

// Trains two ranks by the mpirun that `launcher` describes, and sends that mpirun a signal: expects
// a checkpoint, no model, and a run that resumes. Stores what the interrupted run has printed.
void InterruptAndResume(const Mpirun& launcher, int signal, MpirunOutcome& interrupted) {
  const fs::path out = Scratch() / ("out" + std::to_string(signal));
  const std::string log = (Scratch() / "log").string();
  const auto run = [&](const Flags& flags) {
    Mpirun ranks = Ranks(2, ByMpi(out, flags));
    ranks.kind = launcher.kind;
    ranks.environment = launcher.environment;
    return ranks;
  };
  const pid_t mpirun = StartMpirun(run({"--steps=100000"}), log);
  ASSERT_NO_FATAL_FAILURE(AwaitTraining(mpirun, out, log));
  ASSERT_EQ(kill(mpirun, signal), 0);
  interrupted = AwaitMpirun(mpirun, log);
  EXPECT_FALSE(fs::exists(out / "final"));
  EXPECT_TRUE(absl::StrContains(interrupted.output, "interrupted after ")) << interrupted.output;
  const auto steps = Metrics(out).back()["summary"]["steps"].get<int64_t>();
  const MpirunOutcome resumed =
      RunMpirun(run({absl::StrCat("--steps=", steps + 2), "--resume=auto"}));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_TRUE(fs::exists(out / kWeights));
}

// Signals sent to mpirun, not to its ranks. It forwards SIGUSR1 at once, and SIGTERM after the
// configured delay.
TEST_F(TrainMpiTest, ASignalToMpirunIsACheckpointAndNoModel) {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    SCOPED_TRACE(signal);
    Mpirun launcher;
    if (signal != SIGUSR1) {
      launcher.environment = {{"OMPI_MCA_odls_base_sigkill_timeout", "3"},
                              {"PRTE_MCA_odls_base_sigkill_timeout", "3"}};
    }
    MpirunOutcome ranks;
    ASSERT_NO_FATAL_FAILURE(InterruptAndResume(launcher, signal, ranks));
    EXPECT_NE(ranks.exit_code, 0) << ranks.output;
    if (signal == SIGUSR1) {
      EXPECT_EQ(ranks.exit_code, 75) << ranks.output;
    }
    // The warning appears if mpirun was not told to wait.
    EXPECT_EQ(absl::StrContains(ranks.output, "signals   mpirun kills its ranks a second after"),
              signal == SIGUSR1)
        << ranks.output;
  }
}

// MPICH's mpirun forwards each of them and waits. It ends with the code of its ranks or, after any
// signal, sometimes with 0.
TEST(TrainMpichTest, MpirunForwardsSignalsAndWaits) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kMpich);
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    SCOPED_TRACE(signal);
    Mpirun launcher;
    launcher.kind = MpiKind::kMpich;
    MpirunOutcome ranks;
    ASSERT_NO_FATAL_FAILURE(InterruptAndResume(launcher, signal, ranks));
    if (signal == SIGUSR1) {
      EXPECT_TRUE(ranks.exit_code == 75 || ranks.exit_code == 0) << ranks.exit_code << ranks.output;
    }
  }
}

// Two folders stand for machines with separate disks. The error comes before the first step, not
// when a third checkpoint fails, nor when a checkpoint with its parts on several disks seems
// damaged.
TEST_F(TrainMpiTest, ADirectoryThatRanksDoNotShareIsAnErrorAtTheStart) {
  const fs::path model = fs::absolute("tests/testdata/gpt2_tiny");
  const Flags common = With(Reference("out"), {"--init_from=" + model.string(),
                                               "--data=" + (model / "tokens.npy").string(),
                                               "--batch_size=2", "--steps=2"});
  for (const char* flag : {"--checkpoint_every=1", "--max_seconds=1000", "--resume=auto", ""}) {
    SCOPED_TRACE(flag);
    const fs::path folders = Scratch() / absl::StrCat("with", flag);
    for (const char* rank : {"0", "1"}) fs::create_directories(folders / rank);
    Flags flags = With(common, {"--comm=mpi"});
    const bool fails = flag[0] != 0;
    if (fails) flags.emplace_back(flag);
    const bool resumes = flags.back() == "--resume=auto";
    const fs::path checkpoint = folders / "0/out/step-00000001";
    if (resumes) {
      const Outcome first =
          RunTrainer(With(ByThreads(folders / "0/out", 2, {"--steps=1", "--checkpoint_every=1"}),
                          {"--init_from=" + model.string()}));
      ASSERT_EQ(first.exit_code, 0) << first.output;
      fs::create_directories(folders / "1/out/step-00000001");
      fs::rename(checkpoint / "rank-00001-of-00002.safetensors",
                 folders / "1/out/step-00000001/rank-00001-of-00002.safetensors");
      fs::remove_all(folders / "0/out/final");
    }
    Mpirun run = Ranks(2, flags);
    run.program.insert(run.program.begin(), {"/bin/sh", "-c",
                                             "export BUILD_WORKING_DIRECTORY='" + folders.string() +
                                                 "'/$OMPI_COMM_WORLD_RANK; exec \"$@\"",
                                             "sh"});
    const MpirunOutcome ranks = RunMpirun(run);
    EXPECT_EQ(ranks.exit_code, fails ? 1 : 0) << ranks.output;
    char host[256] = {};
    ASSERT_EQ(gethostname(host, sizeof(host) - 1), 0);
    for (const std::string& words :
         {std::string("rank 1"), std::string(flag),
          absl::StrCat("on ", host, ", --out=", (folders / "1/out").string(),
                       " is not the directory of rank 0, which is on ", host, ": a file"),
          std::string("that all machines share")}) {
      EXPECT_TRUE(absl::StrContains(ranks.output, words)) << words << " in " << ranks.output;
    }
    EXPECT_FALSE(absl::StrContains(ranks.output, "passing over")) << ranks.output;
    EXPECT_EQ(fs::exists(folders / "0/out" / kWeights), !fails);
    EXPECT_EQ(fs::exists(checkpoint), resumes);
  }
}

// After a failure fewer machines may be left; the user gives the same command in the same
// directory.
TEST_F(TrainMpiTest, ARunGoesOnAtAnotherNumberOfRanks) {
  const fs::path out = Scratch() / "out";
  const Flags flags = {"--steps=3", "--checkpoint_every=1", "--keep_last=0",
                       "--deterministic_batch=4", "--resume=auto"};
  // Afterwards the newest checkpoint has number `step`.
  const auto run_until = [&](int ranks, int step) {
    const MpirunOutcome run = RunMpirun(Ranks(ranks, ByMpi(out, flags)));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    for (int later = step + 1; later <= 3; ++later) {
      fs::remove_all(out / absl::StrCat("step-0000000", later));
    }
    if (step < 3) fs::remove_all(out / "final");
    return run.output;
  };
  run_until(4, 1);
  EXPECT_TRUE(absl::StrContains(run_until(2, 2), "step-00000001, after step 1"));
  const MpirunOutcome uneven = RunMpirun(Ranks(3, ByMpi(out, flags)));
  EXPECT_EQ(uneven.exit_code, 1);
  EXPECT_TRUE(absl::StrContains(uneven.output, "divides it: 1, 2, 4")) << uneven.output;
  EXPECT_TRUE(fs::exists(out / "step-00000002"));
  const std::string last = run_until(1, 3);
  EXPECT_TRUE(absl::StrContains(last, "step-00000002, after step 2")) << last;
  EXPECT_FALSE(absl::StrContains(last, "with other flags")) << last;
  const Outcome whole =
      RunTrainer(ByThreads(Scratch() / "whole", 4, {"--steps=3", "--deterministic_batch=4"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_TRUE(Read(out / kWeights) == Read(Scratch() / "whole" / kWeights));
}

// With that option mpirun does not end the others; they end by themselves.
TEST_F(TrainMpiTest, ARankThatIsKilledEndsTheRunWithItsName) {
  const fs::path out = Scratch() / "out";
  const std::string log = (Scratch() / "log").string();
  // One of them says which process to kill.
  Mpirun run = Ranks(3, ByMpi(out, {"--steps=100000"}));
  const std::string pid_file = (Scratch() / "victim").string();
  run.program.insert(
      run.program.begin(),
      {"/bin/sh", "-c",
       "if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then echo $$ > '" + pid_file + "'; fi; exec \"$@\"",
       "sh"});
  run.keeps_others = true;
  const pid_t mpirun = StartMpirun(run, log);
  ASSERT_NO_FATAL_FAILURE(AwaitTraining(mpirun, out, log));
  ASSERT_EQ(kill(std::stoi(Read(pid_file)), SIGKILL), 0);
  const MpirunOutcome ranks = AwaitMpirun(mpirun, log);
  EXPECT_TRUE(absl::StrContains(ranks.output, "rank 1 failed: its process has ended"))
      << ranks.output;
}

}  // namespace
}  // namespace zeroth::testing
