// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Flips one bit of one rank's optimizer state in a run. Ranks are threads or processes.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/tests/faults/faulty_trainer.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kFound[] = "replicas differ in unit 'root', its ";
constexpr char kOddOne[] = "rank 1 has other bits than ranks 0, 2";

Flags Training(const fs::path& out) {
  return With(Reference(out),
              {"--strategy=no_shard", "--batch_size=2", "--steps=6", "--threads_per_rank=1",
               "--optimizer=faulty_adamw", "--checkpoint_every=2"});
}

TEST(SilentCorruptionTest, TheRunEndsBeforeTheCheckpoint) {
  const fs::path out = Scratch() / "out";
  const Outcome run = ByThreads(3, Training(out), "flip:1:3");
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
      ByThreads(3, With(Training(Scratch() / "out"), {"--check_replicas_every=1"}), "flip:1:3");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("step 3: "));
  EXPECT_THAT(run.errors, HasSubstr(kOddOne));
}

// Without the comparison, the flip reaches the checkpoint: it is real.
TEST(SilentCorruptionTest, NeverMeansNever) {
  const fs::path out = Scratch() / "out";
  const Outcome run = ByThreads(3, With(Training(out), {"--check_replicas_every=-1"}), "flip:1:3");
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_TRUE(fs::exists(out / "step-00000006"));
}

// Tensor ranks compute on the same data: norms, the biases of row-parallel layers and the undivided
// matrices of adapters are the same on all of them.
TEST(SilentCorruptionTest, RanksThatShareLayersAreCompared) {
  const Flags divided = {"--strategy=full_shard", "--tensor_parallel=4", "--check_replicas_every=1",
                         "--overwrite"};
  for (const Flags& more :
       {Flags{}, Flags{"--sequence_parallel"},
        Flags{"--lora_rank=4", "--lora_targets=attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj"}}) {
    const Flags flags = With(Training(Scratch() / "out"), With(divided, more));
    const Outcome run = ByThreads(4, flags, "flip:1:3");
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.errors, HasSubstr("step 3: "));
    EXPECT_THAT(run.errors, HasSubstr("replicas differ in unit '"));
    EXPECT_THAT(run.errors, HasSubstr("its state 'm' ("));
    EXPECT_THAT(run.errors, HasSubstr("rank 1 has other bits than ranks 0, 2, 3"));
    const Outcome unharmed = ByThreads(4, With(flags, {"--steps=2"}), "flip:1:3");
    EXPECT_EQ(unharmed.exit_code, 0) << unharmed.errors;
  }
}

TEST(SilentCorruptionTest, ProcessesSayTheSame) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  const fs::path out = Scratch() / "out";
  const MpirunOutcome ranks = ByProcesses(3, Training(out), "flip:1:3");
  EXPECT_NE(ranks.exit_code, 0);
  EXPECT_THAT(ranks.output, HasSubstr(kFound));
  EXPECT_THAT(ranks.output, HasSubstr(kOddOne));
  EXPECT_TRUE(fs::exists(out / "step-00000002"));
  EXPECT_FALSE(fs::exists(out / "step-00000004"));
}

}  // namespace
}  // namespace zeroth::testing
