// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_plan.h"

#include <string>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/train/model_source.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string WarningOf(const std::string& model, const std::string& memory_limit,
                      const std::string& optimizer = "adamw") {
  RunSpec spec;
  spec.options.model = model;
  spec.options.comm = "local";
  spec.options.world_size = 2;
  spec.options.threads_per_rank = 1;
  spec.options.batch_size = 1;
  spec.options.seq_len = 128;
  spec.options.memory_limit = memory_limit;
  spec.options.optimizer = optimizer;
  const absl::StatusOr<ModelSource> source = ModelSource::Open(spec.options);
  EXPECT_TRUE(source.ok()) << source.status();
  return MemoryWarning(spec, *source);
}

// Llama 3 70B with gradients and two moments in fp32 needs more than a terabyte.
TEST(MemoryWarningTest, RunsThatDoNotFitAreNamed) {
  const std::string default_limit = TrainOptions().memory_limit;
  EXPECT_THAT(WarningOf("llama3_70b", default_limit),
              AllOf(StartsWith("warning   this run needs 1"), HasSubstr(" GiB for 2 ranks"),
                    HasSubstr("--activation_checkpointing=block")));
  EXPECT_EQ(WarningOf("gpt2_nano", default_limit), "");
}

// Its update could touch memory that a planned device does not have.
TEST(MemoryWarningTest, OptimizersOfOtherProjectsAreNotPlanned) {
  EXPECT_EQ(WarningOf("llama3_70b", TrainOptions().memory_limit, "somebodys_own"), "");
}

TEST(MemoryWarningTest, WithALimitTheRunEndsByItself) {
  EXPECT_EQ(WarningOf("llama3_70b", "1GiB"), "");
}

}  // namespace
}  // namespace zeroth
