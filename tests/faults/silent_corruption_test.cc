// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A whole run in which one bit of one rank's optimizer state flips: ranks that are threads, and
// ranks that are processes.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/mpi/testing/mpirun.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kProgram[] = "tests/faults/faulty_train";
constexpr char kFound[] = "replicas differ in unit 'root', its ";
constexpr char kOddOne[] = "rank 1 has other bits than ranks 0, 2";

Flags Training(const fs::path& out) {
  return With(Reference(out),
              {"--strategy=no_shard", "--batch_size=2", "--steps=6", "--threads_per_rank=1",
               "--optimizer=faulty_adamw", "--checkpoint_every=2"});
}

Outcome ByThreads(const Flags& flags, const std::string& fault) {
  const fs::path log = Scratch() / "log";
  const int exit_code =
      Wait(Start(With(flags, {"--world_size=3"}), log, "", {{"ZEROTH_FAULT", fault}}, kProgram));
  return {exit_code, Logs(log), Read(ErrorLog(log))};
}

TEST(SilentCorruptionTest, TheRunEndsBeforeTheCheckpoint) {
  const fs::path out = Scratch() / "out";
  const Outcome run = ByThreads(Training(out), "flip:1:3");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr(kFound));
  EXPECT_THAT(run.errors, HasSubstr(kOddOne));
  EXPECT_THAT(run.errors, HasSubstr("step 4: no checkpoint and no model are written"));
  EXPECT_TRUE(fs::exists(out / "step-00000002"));
  EXPECT_FALSE(fs::exists(out / "step-00000004"));
  EXPECT_FALSE(fs::exists(out / "final"));
}

TEST(SilentCorruptionTest, TheFlagLooksBetweenCheckpointsToo) {
  const Outcome run =
      ByThreads(With(Training(Scratch() / "out"), {"--check_replicas_every=1"}), "flip:1:3");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("step 3: "));
  EXPECT_THAT(run.errors, HasSubstr(kOddOne));
}

// What nobody looks at does end in the checkpoint: the flip is a real one.
TEST(SilentCorruptionTest, NeverMeansNever) {
  const fs::path out = Scratch() / "out";
  const Outcome run = ByThreads(With(Training(out), {"--check_replicas_every=-1"}), "flip:1:3");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(fs::exists(out / "step-00000006"));
}

TEST(SilentCorruptionTest, ProcessesSayTheSame) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  const fs::path out = Scratch() / "out";
  Mpirun run;
  run.ranks = 3;
  run.program = {fs::absolute(kProgram).string(), "--comm=mpi"};
  const Flags flags = Training(out);
  run.program.insert(run.program.end(), flags.begin(), flags.end());
  run.environment = {{"ZEROTH_FAULT", "flip:1:3"}};
  const MpirunOutcome ranks = RunMpirun(run);
  EXPECT_NE(ranks.exit_code, 0);
  EXPECT_THAT(ranks.output, HasSubstr(kFound));
  EXPECT_THAT(ranks.output, HasSubstr(kOddOne));
  EXPECT_TRUE(fs::exists(out / "step-00000002"));
  EXPECT_FALSE(fs::exists(out / "step-00000004"));
}

}  // namespace
}  // namespace zeroth::testing
