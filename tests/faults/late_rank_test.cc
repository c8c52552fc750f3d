// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Trains with a straggler, whose updates are slow from the fourth step on. The other ranks' waits
// must identify it. Ranks are threads or processes.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/tests/faults/faulty_trainer.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kFault[] = "late:1:4";

Flags Training(const fs::path& out) {
  return With(Reference(out), {"--batch_size=2", "--steps=12", "--threads_per_rank=1",
                               "--optimizer=faulty_adamw", "--checkpoint_every=0"});
}

// The reported first step may differ: a busy machine delays other ranks too.
void ExpectRank1IsNamed(const fs::path& out, const std::string& output) {
  EXPECT_THAT(output, HasSubstr("late      rank 1 from step "));
  const std::vector<nlohmann::json> lines = Metrics(out);
  ASSERT_EQ(lines.size(), 13u);
  const nlohmann::json& most = lines[12]["summary"]["late"];
  ASSERT_TRUE(most.is_object()) << lines[12];
  EXPECT_EQ(most["rank"], 1);
  EXPECT_LE(most["since_step"], 4);
  // Ranks exchange their waits of a step in the next one.
  EXPECT_EQ(most["until_step"], 11);
  ASSERT_TRUE(lines[11].contains("late")) << lines[11];
  EXPECT_EQ(lines[11]["late"]["rank"], 1);
  EXPECT_EQ(lines[11]["late"]["until_step"], 11);
  // Rank 0 is one of the waiting ranks.
  EXPECT_GT(lines[11]["communication_seconds"],
            lines[11]["late"]["mean_seconds"].get<double>() / 2);
}

TEST(LateRankTest, AThreadIsNamed) {
  const fs::path out = Scratch() / "out";
  const Outcome ranks = ByThreads(3, Training(out), kFault);
  ASSERT_EQ(ranks.exit_code, 0) << ranks.output;
  ExpectRank1IsNamed(out, ranks.output);
}

TEST(LateRankTest, AProcessIsNamed) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  const fs::path out = Scratch() / "out";
  const MpirunOutcome ranks = ByProcesses(3, Training(out), kFault);
  ASSERT_EQ(ranks.exit_code, 0) << ranks.output;
  ExpectRank1IsNamed(out, ranks.output);
}

}  // namespace
}  // namespace zeroth::testing
