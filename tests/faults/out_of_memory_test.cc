// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Lets ranks run out of memory in a step. Checks their messages, and that the run fits with their
// advice. Ranks are threads or processes.

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/comm/mpi/testing/mpirun.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kRanks = 2;

// On one core each, so that a plan knows the same workspace on all machines.
Flags Training(const fs::path& out) {
  return With(Reference(out), {"--strategy=no_shard", "--batch_size=8", "--steps=2",
                               "--threads_per_rank=1", "--checkpoint_every=0"});
}

// Fits the state and the first activations, not the rest.
std::string Limit(const fs::path& out) {
  const Outcome whole =
      RunTrainer(With(Training(out), {absl::StrCat("--world_size=", kRanks), "--overwrite"}));
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  const int64_t peak = Metrics(out).back()["summary"]["memory_peak_bytes"];
  return absl::StrCat("--memory_limit=", peak * 3 / 4);
}

void ExpectReason(const std::string& output) {
  EXPECT_THAT(output,
              ContainsRegex("rank [0-9] (failed|aborted): .*cannot allocate [0-9]+ bytes for "
                            "[a-z_]+ in (forward|backward|gradients of|optimizer) "));
  EXPECT_THAT(output, HasSubstr("above the memory limit of"));
  EXPECT_THAT(output, ContainsRegex("in use: parameters [0-9.]+ MiB, "));
  EXPECT_THAT(output, HasSubstr("most of it from:"));
  EXPECT_THAT(output, ContainsRegex("    optimizer adamw: [0-9.]+ MiB of optimizer"));
  EXPECT_THAT(output, ContainsRegex("    forward [a-z0-9_.]+: [0-9.]+ MiB of activations"));
}

// The flags of the first change that the message names.
Flags Advice(const std::string& output) {
  const size_t at = output.find("to fit    the fastest changes:\n");
  const std::string rest = output.substr(output.find('\n', at) + 1);
  const std::string line = rest.substr(0, rest.find(": "));
  return absl::StrSplit(line, ' ', absl::SkipEmpty());
}

TEST(OutOfMemoryTest, ThreadsSayWhyAndWhatFits) {
  const fs::path out = Scratch() / "out";
  const Flags flags =
      With(Training(out), {absl::StrCat("--world_size=", kRanks), Limit(out), "--overwrite"});
  const Outcome failed = RunTrainer(flags);
  EXPECT_EQ(failed.exit_code, 1);
  ExpectReason(failed.output);
  EXPECT_THAT(failed.output, HasSubstr("to fit    the fastest changes:"));
  EXPECT_THAT(failed.output, ContainsRegex("  --[a-z_=0-9 -]+: [0-9.]+ MiB less, "));
  const Outcome advised = RunTrainer(With(flags, Advice(failed.output)));
  EXPECT_EQ(advised.exit_code, 0) << advised.output;
}

TEST(OutOfMemoryTest, ProcessesSayWhyAndWhatFits) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  const fs::path out = Scratch() / "out";
  Mpirun run;
  run.ranks = kRanks;
  run.program = {fs::absolute("train/train").string(), "--comm=mpi", Limit(out), "--overwrite"};
  const Flags flags = Training(out);
  run.program.insert(run.program.end(), flags.begin(), flags.end());
  const MpirunOutcome failed = RunMpirun(run);
  EXPECT_EQ(failed.exit_code, 1);
  ExpectReason(failed.output);
  // The search stops early on a slow machine, since other processes wait for its end.
  EXPECT_THAT(failed.output, AnyOf(HasSubstr("to fit    the fastest changes:"),
                                   HasSubstr("The search ended before it had tried all")));
}

// Rank 0 has memory, and plans for the rank that lacks it.
TEST(OutOfMemoryTest, RankZeroSaysWhatAnotherRankLacks) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  const fs::path out = Scratch() / "out";
  const std::string limit = Limit(out);
  Mpirun run;
  run.ranks = kRanks;
  run.program = {"/bin/sh",
                 "-c",
                 R"(if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then set -- "$@" "$0"; fi; exec "$@")",
                 limit,
                 fs::absolute("train/train").string(),
                 "--comm=mpi",
                 "--overwrite"};
  const Flags flags = With(Training(out), {"--strategy=full_shard"});
  run.program.insert(run.program.end(), flags.begin(), flags.end());
  const MpirunOutcome failed = RunMpirun(run);
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.output, ContainsRegex("rank 1 aborted: cannot allocate [0-9]+ bytes"));
  // Rank 0 has no limit.
  EXPECT_THAT(failed.output, HasSubstr("to fit    a step of this run needs "));
}

}  // namespace
}  // namespace zeroth::testing
