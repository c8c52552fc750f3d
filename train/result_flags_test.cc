// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/options/option_registry.h"
#include "zeroth/train/resume.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Another value that the option may have.
std::string OtherValue(const Option& option) {
  const std::string text = OptionText(option, TrainOptions());
  for (const auto& [word, enumerator] : option.allowed.words) {
    if (word != text) return word;
  }
  for (const char* other :
       {"true", "false", "0.5", "0.25", "3", "128MiB", "90s", "all", "chatml", "x"}) {
    TrainOptions options;
    if (other != text && SetOption(option, other, options).ok()) return other;
  }
  return text;
}

TEST(ResultFlagsTest, AnOptionThatDecidesIsComparedAndNoOther) {
  TrainOptions defaults;
  defaults.world_size = 2;
  const nlohmann::json before = ResultFlags(defaults);
  for (const Option& option : AllOptions()) {
    EXPECT_EQ(before.contains(option.name), option.decides_results) << option.name;
    TrainOptions options = defaults;
    ASSERT_EQ(SetOption(option, OtherValue(option), options), absl::OkStatus()) << option.name;
    const std::vector<std::string> changed = ChangedFlags(before, ResultFlags(options));
    // Its resolved value follows from other options.
    if (option.name == std::string(kGlobalBatchSize)) continue;
    const bool is_named =
        absl::StrContains(absl::StrJoin(changed, "\n"), absl::StrCat("--", option.name, " is "));
    EXPECT_EQ(is_named, option.decides_results) << option.name << ": " << OtherValue(option);
  }
}

TEST(ResultFlagsTest, WordsOfEarlierVersionsAreComparedByMeaning) {
  TrainOptions options;
  options.optimizer_state_dtype = DType::kUInt8;
  const nlohmann::json now = ResultFlags(options);
  nlohmann::json before = now;
  before["optimizer_state_dtype"] = "int8";
  EXPECT_THAT(ChangedFlags(before, now), IsEmpty());
  before["optimizer_state_dtype"] = "bf16";
  EXPECT_THAT(ChangedFlags(before, now),
              ElementsAre("--optimizer_state_dtype is float8_block, was bf16"));
}

// A derived value is printed as a person would write it, and giving it changes nothing.
TEST(ResultFlagsTest, TheTenthOfTheLearningRateIsADecimal) {
  TrainOptions options;
  const nlohmann::json before = ResultFlags(options);
  options.lr = 3e-3;
  EXPECT_THAT(ChangedFlags(before, ResultFlags(options)),
              ElementsAre("--lr is 0.003, was 0.001", "--min_lr is 0.0003, was 0.0001"));
  TrainOptions given = options;
  given.min_lr = 3e-4;
  EXPECT_EQ(ResultFlags(given), ResultFlags(options));
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
  options.fp8 = Fp8Recipe::kTensorwise;
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

}  // namespace
}  // namespace zeroth
