// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares the largest run that fits with separate plans of its neighbours.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/language_model.h"
#include "zeroth/options/options.h"
#include "zeroth/plan/machine_file.h"
#include "zeroth/plan/plan.h"
#include "zeroth/plan/search.h"
#include "zeroth/train/model_source.h"

namespace zeroth {
namespace {

TrainOptions Options(const std::string& memory_limit) {
  TrainOptions options;
  options.data = "none";
  options.model = "gpt2_nano";
  options.world_size = 2;
  options.comm = "nccl";
  options.threads_per_rank = 1;
  options.batch_size = 2;
  options.seq_len = 32;
  options.memory_limit = memory_limit;
  return options;
}

absl::StatusOr<LargestPlan> Largest(const std::string& what, const TrainOptions& options) {
  const absl::StatusOr<Machine> machine = OpenMachine("H100");
  const absl::StatusOr<ModelSource> source = ModelSource::Open(options);
  EXPECT_TRUE(machine.ok() && source.ok()) << machine.status() << source.status();
  return LargestThatFits(what, options, *machine, [&source](std::optional<int64_t> layers) {
    return source->Build(layers);
  });
}

// The plan of a run with this value, made for it alone.
Plan PlanOf(const std::string& what, int64_t value, TrainOptions options) {
  absl::StatusOr<nlohmann::json> config = PresetConfig(options.model);
  EXPECT_TRUE(config.ok()) << config.status();
  if (what == "batch") options.batch_size = value;
  if (what == "sequence") options.seq_len = value;
  if (what == "layers") (*config)["n_layer"] = value;
  absl::StatusOr<std::unique_ptr<LanguageModel>> model = ModelRegistry::Create(*config);
  EXPECT_TRUE(model.ok()) << model.status();
  const absl::StatusOr<Plan> plan =
      PlanRun(options, OpenMachine("H100").value(), *std::move(model));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(Plan());
}

// Just enough memory for a run with this value.
std::string MemoryFor(const std::string& what, int64_t value, const TrainOptions& options) {
  return absl::StrCat(PlanOf(what, value, options).memory_peak_bytes);
}

TEST(PlanLargestTest, TheValueFitsAndTheNextDoesNot) {
  for (const char* const what : {"batch", "sequence", "layers"}) {
    TrainOptions options = Options("0");
    options.memory_limit = MemoryFor(what, 21, options);
    const absl::StatusOr<LargestPlan> largest = Largest(what, options);
    ASSERT_TRUE(largest.ok()) << largest.status();
    EXPECT_EQ(largest->bound, "") << what;
    EXPECT_EQ(largest->next, largest->value + 1) << what;
    EXPECT_GE(largest->value, 21) << what;
    EXPECT_TRUE(largest->plan.fits) << what;
    // Every value up to it fits, and no larger value does.
    for (int64_t value = 1; value <= largest->value + 4; ++value) {
      EXPECT_EQ(PlanOf(what, value, options).fits, value <= largest->value) << what << " " << value;
    }
  }
}

TEST(PlanLargestTest, TheTextNamesTheFlagAndTheNextValue) {
  TrainOptions options = Options("0");
  options.memory_limit = MemoryFor("batch", 5, options);
  const absl::StatusOr<LargestPlan> largest = Largest("batch", options);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_TRUE(absl::StrContains(LargestText(*largest),
                                absl::StrCat("--batch_size=", largest->value, ", a model of ")))
      << LargestText(*largest);
  EXPECT_TRUE(absl::StrContains(LargestText(*largest),
                                absl::StrCat(": ", largest->value + 1, " would not fit")));
}

TEST(PlanLargestTest, AModelHasOnlySoManyPositions) {
  TrainOptions options = Options("0");
  const absl::StatusOr<LargestPlan> largest = Largest("sequence", options);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(largest->bound, "the model has no more positions");
  EXPECT_EQ(largest->value, PresetConfig("gpt2_nano").value()["n_positions"].get<int64_t>());
}

TEST(PlanLargestTest, SequencesInPartsGrowByWholeParts) {
  TrainOptions options = Options("0");
  options.tensor_parallel = 2;
  options.sequence_parallel = true;
  options.memory_limit = MemoryFor("sequence", 42, options);
  const absl::StatusOr<LargestPlan> largest = Largest("sequence", options);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(largest->value % 2, 0);
  EXPECT_GE(largest->value, 42);
  EXPECT_EQ(largest->bound, "");
  EXPECT_EQ(largest->next, largest->value + 2);
}

TEST(PlanLargestTest, CountsPackedWeightsAndNotTheirBytes) {
  TrainOptions options = Options("48MiB");
  options.model = "llama_tiny";
  options.lora_rank = 4;
  const absl::StatusOr<LargestPlan> full = Largest("batch", options);
  options.base_dtype = BaseDtype::kInt8;
  const absl::StatusOr<LargestPlan> packed = Largest("batch", options);
  ASSERT_TRUE(full.ok() && packed.ok()) << full.status() << packed.status();
  EXPECT_EQ(packed->parameters, full->parameters);
  EXPECT_GT(packed->parameters, 0);
}

TEST(PlanLargestTest, WrongQuestionsAreRefused) {
  const auto refused = [](const std::string& what, const TrainOptions& options,
                          absl::StatusCode code, const std::string& part) {
    const absl::Status status = Largest(what, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
  };
  TrainOptions options = Options("24MiB");
  refused("heads", options, absl::StatusCode::kInvalidArgument, "batch, sequence or layers");
  options.global_batch_size = 4;
  refused("batch", options, absl::StatusCode::kInvalidArgument, "follow from that");
  refused("batch", Options("1MiB"), absl::StatusCode::kResourceExhausted,
          "not even --batch_size=1 fits");
}

}  // namespace
}  // namespace zeroth
