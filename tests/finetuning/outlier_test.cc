// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The effect of skipping an outlier on a run.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/optim/outlier_detector.h"
#include "zeroth/tests/finetuning/tiny_run.h"

namespace zeroth::testing {
namespace {

// So small that losses of the same batch are almost equal, and any other batch stands out.
constexpr double kLr = 1e-8;

// Tokens that the model has not seen in this order, with the targets turned around: a higher loss.
Batch Odd(Batch batch) {
  for (int32_t& target : batch.targets) target = (target + 101) % 257;
  return batch;
}

struct WatchedRun {
  NamedValues weights;
  std::vector<StepResult> results;  // of rank 0
  int64_t updates = 0;
};

// Fills the windows with one batch, then uses `odd` batches of another kind, then a last one.
absl::StatusOr<WatchedRun> Train(const TinySetup& setup, int odd) {
  WatchedRun run;
  Collector weights;
  const absl::Status status = RunTiny(setup, [&](TinyRank& rank) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, rank.loader.Load(0));
    std::vector<StepResult> results;
    for (int64_t step = 0; step < OutlierDetector::kWindow + odd + 1; ++step) {
      const bool is_odd = step >= OutlierDetector::kWindow && step < OutlierDetector::kWindow + odd;
      ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                              rank.trainer.Step(is_odd ? Odd(batch) : batch, kLr));
      results.push_back(result);
    }
    ZEROTH_RETURN_IF_ERROR(weights.PutWeights(rank.trainer.sharding()));
    if (rank.trainer.world().rank() == 0) {
      run.updates = rank.trainer.optimizer().step();
      run.results = std::move(results);
    }
    return absl::OkStatus();
  });
  ZEROTH_RETURN_IF_ERROR(status);
  run.weights = weights.values();
  return run;
}

TinySetup Watching(const TinyRanks& ranks, double loss_limit, double norm_limit) {
  TinySetup setup;
  setup.ranks = ranks;
  setup.trainer.skip_loss_zscore = loss_limit;
  setup.trainer.skip_grad_norm_zscore = norm_limit;
  return setup;
}

TEST(OutlierTest, ASkippedStepLeavesNoTraceUnderAnyStrategy) {
  for (const TinyRanks& ranks : {TinyRanks{"no_shard", 1, 0}, TinyRanks{"full_shard", 3, 0},
                                 TinyRanks{"shard_grad_op", 2, 0}, TinyRanks{"hybrid_shard", 2, 1},
                                 TinyRanks{"shard_optimizer", 2, 0}}) {
    const absl::StatusOr<WatchedRun> skipping = Train(Watching(ranks, 6, 0), /*odd=*/1);
    const absl::StatusOr<WatchedRun> without = Train(Watching(ranks, 0, 0), /*odd=*/0);
    ASSERT_TRUE(skipping.ok() && without.ok()) << skipping.status() << without.status();
    const auto at = static_cast<size_t>(OutlierDetector::kWindow);
    for (size_t i = 0; i < skipping->results.size(); ++i) {
      EXPECT_EQ(skipping->results[i].outlier, i == at) << ranks.ToString() << " step " << i;
      EXPECT_EQ(skipping->results[i].skipped, i == at);
      EXPECT_EQ(skipping->results[i].loss_zscore.has_value(), i + 1 >= at);
    }
    EXPECT_GT(*skipping->results[at].loss_zscore, 6);
    // Every bit of the weights is equal, and so is the optimizer's count of steps, which its bias
    // corrections use.
    EXPECT_EQ(skipping->updates, without->updates);
    EXPECT_TRUE(skipping->weights == without->weights) << ranks.ToString();
    EXPECT_EQ(skipping->results.back().loss, without->results.back().loss);
  }
}

TEST(OutlierTest, WithoutALimitTheSameStepCounts) {
  const absl::StatusOr<WatchedRun> with = Train(Watching({"full_shard", 2, 0}, 0, 0), /*odd=*/1);
  const absl::StatusOr<WatchedRun> without = Train(Watching({"full_shard", 2, 0}, 0, 0), /*odd=*/0);
  ASSERT_TRUE(with.ok() && without.ok()) << with.status() << without.status();
  EXPECT_FALSE(with->weights == without->weights);
  EXPECT_EQ(with->updates, without->updates + 1);
  EXPECT_FALSE(with->results.back().loss_zscore.has_value());
}

TEST(OutlierTest, TheNormHasASeparateLimit) {
  const TinyRanks ranks = {"full_shard", 2, 0};
  const absl::StatusOr<WatchedRun> run = Train(Watching(ranks, 0, 6), /*odd=*/1);
  ASSERT_TRUE(run.ok()) << run.status();
  const StepResult& odd = run->results[static_cast<size_t>(OutlierDetector::kWindow)];
  EXPECT_TRUE(odd.outlier);
  EXPECT_GT(*odd.grad_norm_zscore, 6);
}

TEST(OutlierTest, WaitingForTheVerdictChangesNoBit) {
  const TinyRanks ranks = {"full_shard", 2, 0};
  const absl::StatusOr<WatchedRun> judged = Train(Watching(ranks, 11, 11), /*odd=*/0);
  const absl::StatusOr<WatchedRun> plain = Train(Watching(ranks, 0, 0), /*odd=*/0);
  ASSERT_TRUE(judged.ok() && plain.ok()) << judged.status() << plain.status();
  EXPECT_TRUE(judged->weights == plain->weights);
  for (size_t i = 0; i < plain->results.size(); ++i) {
    EXPECT_EQ(judged->results[i].loss, plain->results[i].loss);
    EXPECT_EQ(judged->results[i].grad_norm, plain->results[i].grad_norm);
  }
}

// All tensor ranks hold the undivided parameters, which a norm counts once. So the scores do not
// depend on the number of tensor ranks.
TEST(OutlierTest, ScoresAreTheSameAtAnyNumberOfTensorRanks) {
  std::vector<WatchedRun> runs;
  for (const int tensor_ranks : {1, 2}) {
    for (const int data_ranks : {1, 2}) {
      TinySetup setup = Watching({"full_shard", data_ranks * tensor_ranks, 0}, 6, 6);
      setup.trainer.tensor.size = tensor_ranks;
      setup.trainer.tensor.deterministic = 2;
      const absl::StatusOr<WatchedRun> run = Train(setup, /*odd=*/1);
      ASSERT_TRUE(run.ok()) << run.status();
      runs.push_back(*run);
    }
  }
  // One pair for each number of data ranks, whose batches differ.
  for (const auto& [one, two] : {std::pair(0, 2), std::pair(1, 3)}) {
    const WatchedRun& whole = runs[static_cast<size_t>(one)];
    const WatchedRun& divided = runs[static_cast<size_t>(two)];
    ASSERT_EQ(whole.results.size(), divided.results.size());
    for (size_t i = 0; i < whole.results.size(); ++i) {
      EXPECT_EQ(whole.results[i].grad_norm, divided.results[i].grad_norm) << "step " << i;
      EXPECT_EQ(whole.results[i].loss_zscore, divided.results[i].loss_zscore) << "step " << i;
      EXPECT_EQ(whole.results[i].grad_norm_zscore, divided.results[i].grad_norm_zscore) << i;
      EXPECT_EQ(whole.results[i].outlier, i == static_cast<size_t>(OutlierDetector::kWindow));
      EXPECT_EQ(divided.results[i].outlier, whole.results[i].outlier) << "step " << i;
    }
    EXPECT_TRUE(whole.weights == divided.weights);
  }
}

TEST(OutlierTest, LimitsOutOfRangeAreRefused) {
  const auto refused = [](const TinySetup& setup) {
    return RunTiny(setup, [](TinyRank&) { return absl::OkStatus(); }).code();
  };
  EXPECT_EQ(refused(Watching({}, -1, 0)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(Watching({}, 0, 12)), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace zeroth::testing
