// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Makes a parameter NaN after the second update of a run, and checks the messages and the step at
// which the run ends. Ranks are threads or processes.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/tests/faults/faulty_trainer.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kFault[] = "nan:0:2";
constexpr char kFound[] =
    "on rank 0: parameter 'transformer.h.2.attn.c_attn.weight' of unit 'transformer.h.2' is not "
    "finite itself, in the forward of micro-batch 1: 1 of ";

Flags Training(const fs::path& out) {
  return With(Reference(out), {"--batch_size=2", "--steps=9", "--threads_per_rank=1",
                               "--optimizer=faulty_adamw", "--strategy=full_shard"});
}

TEST(NonFiniteRunTest, StopsAndNamesTheParameter) {
  const Outcome run = ByThreads(2, Training(Scratch() / "out"), kFault);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.errors, HasSubstr("step 3: the gradient norm is nan, so the weights were not "
                                    "updated"));
  EXPECT_THAT(run.errors, HasSubstr(kFound));
}

TEST(NonFiniteRunTest, SkipsAsOftenAsItMay) {
  const fs::path out = Scratch() / "out";
  const Outcome run =
      ByThreads(2, With(Training(out), {"--on_nonfinite=skip", "--max_nonfinite_steps=3"}), kFault);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.output, HasSubstr("step 3  skipped: the gradient norm is nan\n  on rank 0: "));
  EXPECT_THAT(run.output, HasSubstr("step 4  skipped: the gradient norm is nan\n"));
  EXPECT_THAT(run.errors, HasSubstr("step 5: the gradient norm is nan 3 times in a row"));
  EXPECT_THAT(run.errors, HasSubstr("with a higher --max_nonfinite_steps the run continues"));
  // Non-finite norms are valid JSON.
  EXPECT_EQ(Metrics(out)[3]["grad_norm"], "nan");
  EXPECT_EQ(Metrics(out)[3]["skipped_steps"], 2);
}

TEST(NonFiniteRunTest, ProcessesSayTheSame) {
  ZEROTH_SKIP_WITHOUT_MPIRUN(MpiKind::kOpenMpi);
  const MpirunOutcome ranks = ByProcesses(2, Training(Scratch() / "out"), kFault);
  EXPECT_NE(ranks.exit_code, 0);
  EXPECT_THAT(ranks.output, HasSubstr(kFound));
}

}  // namespace
}  // namespace zeroth::testing
