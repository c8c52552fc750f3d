// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_spec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

TrainOptions SomeOptions() {
  TrainOptions options;
  options.data = "text.txt";
  options.world_size = 2;
  options.global_batch_size = 24;
  options.grad_accum = 3;
  options.out = "some_run";
  options.overwrite = true;
  return options;
}

TEST(RunSpecTest, EveryValueIsTheRunsOwn) {
  const absl::StatusOr<RunSpec> spec = ResolveRun(SomeOptions());
  ASSERT_EQ(spec.status(), absl::OkStatus());
  EXPECT_TRUE(spec->ranks_are_threads);
  EXPECT_FALSE(spec->only_evaluates());
  EXPECT_EQ(spec->options.comm, "local");
  EXPECT_EQ(spec->options.batch_size, 4);
  EXPECT_GT(spec->options.threads_per_rank, 0);
  EXPECT_TRUE(spec->options.overwrite);
}

// config.toml repeats the run, also at another number of ranks, and removes no other run.
TEST(RunSpecTest, ItsConfigurationRepeatsTheRun) {
  const absl::StatusOr<RunSpec> spec = ResolveRun(SomeOptions());
  ASSERT_EQ(spec.status(), absl::OkStatus());
  EXPECT_FALSE(spec->config.overwrite);
  const absl::StatusOr<RunSpec> again = ResolveRun(spec->config);
  ASSERT_EQ(again.status(), absl::OkStatus());
  for (const Option& option : AllOptions()) {
    if (std::string(option.name) == "overwrite") continue;
    EXPECT_EQ(OptionValue(option, again->options), OptionValue(option, spec->options))
        << option.name;
  }
  TrainOptions wider = spec->config;
  wider.world_size = 4;
  const absl::StatusOr<RunSpec> other = ResolveRun(wider);
  ASSERT_EQ(other.status(), absl::OkStatus());
  EXPECT_EQ(other->options.batch_size, 2);
}

TEST(RunSpecTest, WhatDoesNotFitIsRefusedBeforeAnythingIsOpened) {
  TrainOptions options = SomeOptions();
  options.global_batch_size = 25;
  EXPECT_THAT(ResolveRun(options).status().ToString(), HasSubstr("--global_batch_size=25"));
  options = SomeOptions();
  options.data.clear();
  EXPECT_THAT(ResolveRun(options).status().ToString(), HasSubstr("--data is missing"));
  options = SomeOptions();
  options.like = Like::kFsdp2;
  EXPECT_THAT(ResolveRun(options).status().ToString(), HasSubstr("needs --dry_run"));
  options = SomeOptions();
  options.optimizer = "lion";
  EXPECT_THAT(ResolveRun(options).status().ToString(), HasSubstr("--optimizer"));
}

}  // namespace
}  // namespace zeroth
