// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_spec.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
    EXPECT_EQ(OptionText(option, again->options), OptionText(option, spec->options)) << option.name;
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

// A new run needs weights to quantize. A resumed run has them in its checkpoint, and a plan needs
// none.
TEST(RunSpecTest, WeightsToQuantizeAreNeededByRunsThatBegin) {
  for (const auto& [model, dtype] :
       {std::pair("llama3_8b", BaseDtype::kNf4), {"gpt_oss_20b", BaseDtype::kMxfp4}}) {
    SCOPED_TRACE(model);
    TrainOptions options = SomeOptions();
    options.model = model;
    options.lora_rank = 16;
    options.base_dtype = dtype;
    EXPECT_THAT(
        ResolveRun(options).status().ToString(),
        HasSubstr("--base_dtype=" + OptionText("base_dtype", options) + " needs --init_from"));
    EXPECT_TRUE(ResolveOnMachine(options, /*is_gpu=*/true).ok());
    options.dry_run = true;
    EXPECT_TRUE(ResolveRun(options).ok());
    options.dry_run = false;
    options.resume = "runs/quantized/step-00000003";
    EXPECT_THAT(ResolveRun(options).status().ToString(), Not(HasSubstr("needs --init_from")));
  }
}

// Nothing of the other machine is here, but what does not depend on it is checked as for a run.
TEST(RunSpecTest, ARunOnAnotherMachineIsRefusedForWhatARunHereIs) {
  TrainOptions given = SomeOptions();
  given.data.clear();
  given.world_size = 0;
  given.global_batch_size = 12;
  given.like = Like::kFsdp2;
  const absl::StatusOr<TrainOptions> options = ResolveOnMachine(given, true);
  ASSERT_EQ(options.status(), absl::OkStatus());
  EXPECT_EQ(options->device, "cuda");
  EXPECT_EQ(options->comm, "nccl");
  EXPECT_EQ(options->world_size, kDefaultWorldSize);
  EXPECT_EQ(options->batch_size, 2);
  EXPECT_EQ(ResolveOnMachine(given, false)->comm, "local");

  const auto refused = [](const TrainOptions& wrong, const char* why) {
    EXPECT_THAT(ResolveOnMachine(wrong, true).status().ToString(), HasSubstr(why));
  };
  TrainOptions wrong = given;
  wrong.global_batch_size = 25;
  refused(wrong, "--global_batch_size=25");
  wrong = given;
  wrong.optimizer = "lion";
  refused(wrong, "--optimizer");
  wrong = given;
  wrong.strategy = "no_shard";
  wrong.quantized_weights = true;
  refused(wrong, "--quantized_weights: under --strategy=no_shard");
}

}  // namespace
}  // namespace zeroth
