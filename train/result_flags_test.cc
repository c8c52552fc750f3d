// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/result_flags.h"

#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/train/global_batch.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The members of an aggregate: the most values that it can be initialised with.
struct Anything {
  template <typename T>
  operator T() const;  // NOLINT: implicit by purpose
};
template <typename T, size_t... kIndices>
constexpr bool TakesValues(std::index_sequence<kIndices...>) {
  return requires { T{(static_cast<void>(kIndices), Anything())...}; };
}
template <typename T, size_t kCount = 1>
constexpr size_t CountMembers() {
  if constexpr (TakesValues<T>(std::make_index_sequence<kCount>())) {
    return CountMembers<T, kCount + 1>();
  } else {
    return kCount - 1;
  }
}
struct Three {
  int a = 1;
  std::string b;
  double c = 2;
};
static_assert(CountMembers<Three>() == 3);

TEST(ResultFlagsTest, EveryOptionIsDecidedUpon) {
  EXPECT_EQ(OptionFields().size(), CountMembers<TrainOptions>())
      << "a field of TrainOptions is not in result_flags.cc: say there whether it decides results";
  std::set<std::string> names;
  for (const OptionField& field : OptionFields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name << " is there twice";
  }
}

TEST(ResultFlagsTest, EveryFieldThatDecidesIsCompared) {
  const nlohmann::json flags = ResultFlags(TrainOptions());
  for (const OptionField& field : OptionFields()) {
    EXPECT_EQ(flags.contains(field.name), field.decides_results) << field.name;
  }
}

TEST(ResultFlagsTest, NamesTheFlagsThatChanged) {
  TrainOptions options;
  const nlohmann::json before = ResultFlags(options);
  EXPECT_TRUE(ChangedFlags(before, ResultFlags(options)).empty());
  options.lr = 0.5;
  options.min_lr = 1e-4;
  options.lr_schedule = "constant";
  options.out = "elsewhere";
  EXPECT_THAT(ChangedFlags(before, ResultFlags(options)),
              ElementsAre("--lr is 0.5, was 0.001", "--lr_schedule is constant, was cosine"));
  options = TrainOptions();
  options.model = "llama_tiny";
  options.lora_alpha = 3;
  options.tokenizer = "byte";
  options.fp8 = "tensorwise";
  options.quantized_weights = true;
  options.gradient_divide_factor = 3;
  EXPECT_THAT(
      ChangedFlags(before, ResultFlags(options)),
      ElementsAre("--fp8 is tensorwise, was none", "--gradient_divide_factor is 3.0, was 0.0",
                  "--lora_alpha is 3.0, was 16.0", "--model is llama_tiny, was ",
                  "--quantized_weights is true, was false", "--tokenizer is byte, was auto"));
}

TEST(ResultFlagsTest, RanksAndStrategiesChangeNothingOfADeterministicBatch) {
  TrainOptions options;
  options.deterministic_batch = 8;
  options.world_size = 2;
  options.grad_accum = 4;
  const nlohmann::json before = ResultFlags(options);
  options.world_size = 4;
  options.grad_accum = 2;
  options.strategy = "hybrid_shard";
  options.shard_size = 2;
  options.threads_per_rank = 3;
  EXPECT_TRUE(ChangedFlags(before, ResultFlags(options)).empty());
  options.deterministic_batch = 16;
  EXPECT_THAT(ChangedFlags(before, ResultFlags(options)),
              ElementsAre("--deterministic_batch is 16, was 8"));
}

TEST(GlobalBatchTest, DividesAmongRanksAndMicroBatches) {
  TrainOptions options;
  options.world_size = 4;
  options.grad_accum = 3;
  EXPECT_EQ(WithGlobalBatch(options)->batch_size, options.batch_size);
  options.global_batch_size = 24;
  EXPECT_EQ(WithGlobalBatch(options)->batch_size, 2);
  EXPECT_EQ(GlobalBatchSize(*WithGlobalBatch(options)), 24);
  options.global_batch_size = 6;
  EXPECT_THAT(WithGlobalBatch(options).status().ToString(),
              HasSubstr("--global_batch_size=6 over 4 ranks with 3 micro-batches each: expected a "
                        "multiple of 12"));
}

}  // namespace
}  // namespace zeroth
