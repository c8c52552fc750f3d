// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Lets one rank hang in its update, and checks the report that the others write when they have
// waited long enough. Ranks are threads or processes.

#include <signal.h>

#include <chrono>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/tests/faults/faulty_trainer.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;

Flags Training(const fs::path& out) {
  return With(Reference(out), {"--batch_size=2", "--steps=9", "--threads_per_rank=1",
                               "--optimizer=faulty_adamw", "--comm_timeout=3s"});
}

void ExpectRank1IsMissed(const fs::path& out) {
  const std::string text = Read(out / "flight_recorder/who_waited.txt");
  EXPECT_THAT(text, HasSubstr("No record of rank 1:"));
  EXPECT_THAT(text, HasSubstr("timeout after 3s"));
  EXPECT_THAT(text, HasSubstr("missing rank 1"));
  const nlohmann::json record = nlohmann::json::parse(Read(out / "flight_recorder/rank-0.json"));
  EXPECT_GT(record["communicators"].size(), 1u);
  EXPECT_FALSE(record["communicators"][0]["latest"].empty());
}

// Its thread keeps the process alive.
TEST(StuckRankTest, ThreadsThatWaitLeaveARecord) {
  const fs::path out = Scratch() / "out";
  const fs::path log = Scratch() / "log";
  const pid_t run = Start(With(Training(out), {"--world_size=3"}), log, "",
                          {{"ZEROTH_FAULT", "hang:1:2"}}, kFaultyTrainer);
  // Rank 0 says so once it has waited for the others' records, and rank 2 may still be writing.
  while (Logs(log).find("flight    " + out.string()) == std::string::npos ||
         Read(out / "flight_recorder/who_waited.txt").find("rank 2: ") == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ExpectRank1IsMissed(out);
  ASSERT_EQ(kill(run, SIGKILL), 0);
  Wait(run);
}

TEST(StuckRankTest, ProcessesThatWaitLeaveARecordAndEnd) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  const fs::path out = Scratch() / "out";
  const MpirunOutcome ranks = ByProcesses(3, Training(out), "hang:1:2");
  EXPECT_NE(ranks.exit_code, 0);
  EXPECT_THAT(ranks.output, HasSubstr("missing rank 1"));
  ExpectRank1IsMissed(out);
}

}  // namespace
}  // namespace zeroth::testing
