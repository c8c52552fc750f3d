// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "zeroth/api/zeroth.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/ops/loss.h"
#include "zeroth/nn/ops/pointwise.h"

namespace zeroth {
namespace {

constexpr int64_t kInputs = 5;
constexpr int64_t kHidden = 7;
constexpr int64_t kClasses = 3;
constexpr int64_t kBatch = 4;

struct Batch {
  Tensor inputs;  // [rows, 1, kInputs]
  Tensor labels;  // [rows, 1] int32
};

// Rows [first, first + rows) of one endless set.
absl::StatusOr<Batch> Rows(Device& device, int64_t first, int64_t rows) {
  std::vector<float> inputs(static_cast<size_t>(rows * kInputs));
  CounterRng(1, "inputs")
      .FillNormal(static_cast<uint64_t>(first * kInputs), 1.0f, absl::MakeSpan(inputs));
  std::vector<int32_t> labels;
  for (int64_t i = first; i < first + rows; ++i) {
    labels.push_back(static_cast<int32_t>(i * 7 % 11 % kClasses));
  }
  Batch batch;
  ZEROTH_ASSIGN_OR_RETURN(batch.inputs,
                          Tensor::FromHost<float>(device, Shape({rows, 1, kInputs}), inputs,
                                                  MemoryCategory::kActivations));
  ZEROTH_ASSIGN_OR_RETURN(batch.labels, Tensor::FromHost<int32_t>(device, Shape({rows, 1}), labels,
                                                                  MemoryCategory::kActivations));
  return batch;
}

struct Classifier : Module {
  Linear* hidden = AddChild(std::make_unique<Linear>("hidden", kInputs, kHidden));
  Parameter* head = AddParameter("head", Shape({kClasses, kHidden}), Initializer::Normal(0.5f));
  Classifier() : Module("") {}

  absl::StatusOr<Value> Loss(Context& context, const Batch& batch) {
    return Hooked(context, [&]() -> absl::StatusOr<Value> {
      ZEROTH_ASSIGN_OR_RETURN(const Value x,
                              hidden->Forward(context, {batch.inputs}, Activation::kGelu));
      return LinearCrossEntropyOp(context, x, *head, batch.labels);
    });
  }
};

using Weights = std::map<std::string, std::vector<float>>;

absl::StatusOr<Weights> WeightsOf(Sharding& sharding) {
  Weights weights;
  ZEROTH_RETURN_IF_ERROR(
      sharding.VisitFull([&](const Parameter& parameter, int64_t, absl::Span<const float> values) {
        weights[parameter.name()].assign(values.begin(), values.end());
        return absl::OkStatus();
      }));
  return weights;
}

// A rank's classifier with its optimizer.
struct Training {
  Rank& rank;
  Classifier model;
  std::unique_ptr<ShardedModule> sharded;
  std::unique_ptr<AdamW> optimizer;

  absl::Status Open(const ShardingOptions& options, const std::vector<UnitAxes>& axes) {
    if (axes.empty()) {
      ZEROTH_ASSIGN_OR_RETURN(sharded, FullyShard(rank, model, options, WrapByMinNumel(1), 3));
    } else {
      WrapPlan plan = PlanUnits(model, WrapByMinNumel(1));
      EXPECT_EQ(plan.units.size(), axes.size());
      for (size_t i = 0; i < axes.size(); ++i) plan.units[i].axes = axes[i];
      ZEROTH_ASSIGN_OR_RETURN(sharded, ShardedModule::Create(rank, plan, options));
      ZEROTH_RETURN_IF_ERROR(sharded->sharding().Initialize(3));
    }
    ZEROTH_ASSIGN_OR_RETURN(optimizer, AdamW::Create(*sharded, {.lr = 1e-2}));
    return absl::OkStatus();
  }

  // A step on `micro_batches` * kBatch rows of each rank.
  absl::Status Step(int64_t step, const TrainingStepOptions& options = {}) {
    TrainingStep training(*sharded, options);
    for (int64_t i = 0; i < options.micro_batches; ++i) {
      const int64_t at = (step * options.micro_batches + i) * rank.world_size() + rank.index();
      ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(rank.device(), at * kBatch, kBatch));
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, model.Loss(training.context(), batch));
      ZEROTH_RETURN_IF_ERROR(training.Backward(loss));
    }
    ZEROTH_RETURN_IF_ERROR(training.Update(*optimizer, {.clip_grad_norm = 0.5}));
    EXPECT_FALSE(training.skipped());
    EXPECT_GT(training.grad_norm(), 0);
    return absl::OkStatus();
  }
};

// The values on rank 0 after `train`.
Weights Train(int world_size, const ShardingOptions& options,
              const std::function<absl::Status(Training&)>& train,
              const std::vector<UnitAxes>& axes = {}) {
  Weights weights;
  RunOptions run;
  run.launch.world_size = world_size;
  run.rank.threads = 1;  // the thread sanitizer does not see what OpenMP's threads wait for
  const absl::Status status = RunRanks(run, [&](Rank& rank) -> absl::Status {
    Training training{rank, {}, nullptr, nullptr};
    ZEROTH_RETURN_IF_ERROR(training.Open(options, axes));
    ZEROTH_RETURN_IF_ERROR(train(training));
    ZEROTH_ASSIGN_OR_RETURN(Weights mine, WeightsOf(training.sharded->sharding()));
    if (rank.index() == 0) weights = std::move(mine);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return weights;
}

absl::Status ThreeSteps(Training& training) {
  for (int64_t step = 0; step < 3; ++step) ZEROTH_RETURN_IF_ERROR(training.Step(step));
  return absl::OkStatus();
}

TEST(ApiTest, EveryStrategyTrainsToTheSameBits) {
  const Weights expected = Train(4, {.strategy = "no_shard"}, ThreeSteps);
  ASSERT_EQ(expected.size(), 3u);
  EXPECT_NE(expected,
            Train(4, {.strategy = "no_shard"}, [](Training&) { return absl::OkStatus(); }));
  for (const char* strategy : {"shard_optimizer", "shard_grad_op", "full_shard"}) {
    EXPECT_EQ(Train(4, {.strategy = strategy}, ThreeSteps), expected) << strategy;
  }
  EXPECT_EQ(
      Train(4, {.strategy = "hybrid_shard", .strategy_options = {.shard_size = 2}}, ThreeSteps),
      expected);
}

// The built-in strategies, and hybrid_shard with and without optimizer state sharded over all
// ranks.
std::vector<ShardingOptions> EveryStrategy() {
  std::vector<ShardingOptions> all;
  for (const char* strategy : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
    all.push_back({.strategy = strategy});
  }
  for (const bool over_world : {false, true}) {
    all.push_back({.strategy = "hybrid_shard", .strategy_options = {.shard_size = 2}});
    all.back().strategy_options.shard_optimizer_over_world = over_world;
  }
  return all;
}

const UnitAxes kShardedOverAll = {{}, {kReplicateAxis, kShardAxis}};
const UnitAxes kReplicatedOverAll = {{kReplicateAxis, kShardAxis}, {}};
const std::vector<UnitAxes> kMixtures[] = {{kShardedOverAll, UnitAxes()},
                                           {UnitAxes(), kReplicatedOverAll},
                                           {kReplicatedOverAll, kShardedOverAll}};

// Includes clipping, which counts each element once.
TEST(ApiTest, UnitsWithOtherAxesTrainToTheSameBits) {
  const Weights expected = Train(4, {.strategy = "no_shard"}, ThreeSteps);
  for (const ShardingOptions& options : EveryStrategy()) {
    for (const std::vector<UnitAxes>& axes : kMixtures) {
      EXPECT_EQ(Train(4, options, ThreeSteps, axes), expected)
          << options.strategy << ", mixture " << &axes - kMixtures;
    }
  }
}

// Saved under one mixture, and resumed under another strategy and mixture.
TEST(ApiTest, CheckpointsGoFromAnyAxesToAnyOthers) {
  const Weights expected = Train(4, {.strategy = "no_shard"}, ThreeSteps);
  const std::vector<ShardingOptions> strategies = EveryStrategy();
  for (size_t i = 0; i < strategies.size(); ++i) {
    const std::string out = ::testing::TempDir() + "/axes_checkpoint_" + std::to_string(i);
    Train(
        4, strategies[i],
        [&](Training& training) -> absl::Status {
          ZEROTH_RETURN_IF_ERROR(training.Step(0));
          ZEROTH_RETURN_IF_ERROR(training.Step(1));
          return training.sharded->Save(out, training.optimizer.get());
        },
        kMixtures[i % 3]);
    for (const size_t other : {i, i + 1, i + 2}) {
      const Weights found = Train(
          4, strategies[other % strategies.size()],
          [&](Training& training) -> absl::Status {
            ZEROTH_RETURN_IF_ERROR(training.sharded->Load(out, training.optimizer.get()));
            return training.Step(2);
          },
          other == i ? std::vector<UnitAxes>() : kMixtures[other % 3]);
      EXPECT_EQ(found, expected) << "from " << i << " to " << other;
    }
  }
}

// Losses are means over rows, so two micro-batches of four rows are one of eight.
TEST(ApiTest, MicroBatchesAreAveraged) {
  const auto train = [](bool sync) {
    return Train(1, {}, [sync](Training& training) {
      return training.Step(0, {.micro_batches = 2, .sync_every_micro_batch = sync});
    });
  };
  const Weights whole = Train(1, {}, [](Training& training) -> absl::Status {
    TrainingStep step(*training.sharded);
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), 0, 2 * kBatch));
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    return step.Update(*training.optimizer, {.clip_grad_norm = 0.5});
  });
  for (const bool sync : {false, true}) {
    for (const auto& [name, values] : train(sync)) {
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], whole.at(name)[i], 2e-5) << name << " " << i;
      }
    }
  }
}

TEST(ApiTest, AStepThatIsDroppedLeavesNothing) {
  const Weights expected = Train(2, {}, ThreeSteps);
  const Weights found = Train(2, {}, [](Training& training) -> absl::Status {
    {
      TrainingStep step(*training.sharded);
      ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), 0, kBatch));
      ZEROTH_RETURN_IF_ERROR(training.model.Loss(step.context(), batch).status());
    }
    {
      TrainingStep step(*training.sharded, {.micro_batches = 2});
      ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), 0, kBatch));
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
      ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
      EXPECT_EQ(step.Update(*training.optimizer).code(), absl::StatusCode::kFailedPrecondition);
    }
    return ThreeSteps(training);
  });
  EXPECT_EQ(found, expected);
}

// An error in a pass, evaluation included, drops the gradients of earlier micro-batches. A program
// that continues with the next batch must not update with later ones alone.
TEST(ApiTest, AStepContinuesAfterAnErrorInAPassIfNothingIsLost) {
  const Weights found = Train(2, {}, [](Training& training) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Batch good, Rows(training.rank.device(), 0, kBatch));
    const Batch bad = {good.labels, good.labels};
    const auto evaluate = [&](Context& context) {
      const NoGradient none(context.tape());
      return training.model.Loss(context, bad).status();
    };
    const auto expect_refused = [](const absl::Status& status) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), "has dropped the gradients")) << status;
    };
    for (const bool in_evaluation : {false, true}) {
      TrainingStep step(*training.sharded, {.micro_batches = 2});
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), good));
      ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
      EXPECT_FALSE(in_evaluation ? evaluate(step.context()).ok()
                                 : training.model.Loss(step.context(), bad).ok());
      ZEROTH_ASSIGN_OR_RETURN(const Value second, training.model.Loss(step.context(), good));
      expect_refused(step.Backward(second));
      expect_refused(step.Update(*training.optimizer));
    }
    {
      TrainingStep step(*training.sharded);
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), good));
      ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
      EXPECT_FALSE(evaluate(step.context()).ok());
      expect_refused(step.Update(*training.optimizer));
    }
    // The step is the first of ThreeSteps.
    TrainingStep step(*training.sharded);
    EXPECT_FALSE(evaluate(step.context()).ok());
    EXPECT_FALSE(training.model.Loss(step.context(), bad).ok());
    const int64_t at = training.rank.index() * kBatch;
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), at, kBatch));
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    ZEROTH_RETURN_IF_ERROR(step.Update(*training.optimizer, {.clip_grad_norm = 0.5}));
    ZEROTH_RETURN_IF_ERROR(training.Step(1));
    return training.Step(2);
  });
  EXPECT_EQ(found, Train(2, {}, ThreeSteps));
}

TEST(ApiTest, TheTimelineHasTheNormAndTheUpdate) {
  Train(1, {}, [](Training& training) -> absl::Status {
    Timeline timeline;
    ShardingOptions options;
    options.scheduler.timeline = &timeline;
    Training timed{training.rank, {}, nullptr, nullptr};
    ZEROTH_RETURN_IF_ERROR(timed.Open(options, {}));
    timeline.set_recording(true);
    ZEROTH_RETURN_IF_ERROR(timed.Step(0));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<Timeline::Span> spans, timeline.Take());
    std::vector<std::string> last;
    for (const Timeline::Span& span : spans) {
      if (span.label == "gradient norm" || span.label == "optimizer step") {
        EXPECT_EQ(span.stream, "compute");
        last.push_back(span.label);
      }
    }
    EXPECT_EQ(last, (std::vector<std::string>{"gradient norm", "optimizer step"}));
    return absl::OkStatus();
  });
}

void ExpectRefused(TrainingStep& step, Optimizer& optimizer, const char* words) {
  for (const absl::Status& status :
       {step.Backward(Value()), step.FinishBackward(), step.Forward("root").status(),
        step.Backward("root").status(), step.GradNormAndScale(1).status(), step.Update(optimizer),
        step.EndStep()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
  }
}

// Two live steps would share gradients, the scale of the loss, and the scheduler's last
// micro-batch. A second one is tried before, between and after the first one's micro-batches.
TEST(ApiTest, ASecondStepBesideALiveOneIsRefusedAndChangesNothing) {
  const TrainingStepOptions two = {.micro_batches = 2};
  const Weights found = Train(2, {}, [&](Training& training) -> absl::Status {
    const auto refused_one = [&] {
      TrainingStep second(*training.sharded, {.micro_batches = 3, .loss_scale = 8});
      ExpectRefused(second, *training.optimizer, "another TrainingStep of this ShardedModule");
      second.Release();
    };
    TrainingStep step(*training.sharded, two);
    for (int64_t i = 0; i < two.micro_batches; ++i) {
      refused_one();
      const int64_t at = (i * 2 + training.rank.index()) * kBatch;
      ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), at, kBatch));
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
      refused_one();
      {
        const NoGradient none(step.context().tape());
        ZEROTH_RETURN_IF_ERROR(training.model.Loss(step.context(), batch).status());
      }
      ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    }
    refused_one();
    ZEROTH_RETURN_IF_ERROR(step.Update(*training.optimizer, {.clip_grad_norm = 0.5}));
    EXPECT_TRUE(absl::IsFailedPrecondition(step.EndStep()));
    return training.Step(1, two);  // beside one that has ended
  });
  const Weights expected = Train(2, {}, [&](Training& training) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(training.Step(0, two));
    return training.Step(1, two);
  });
  EXPECT_EQ(found, expected);
}

TEST(ApiTest, AStepThatWasDroppedOrReleasedMakesRoomForTheNext) {
  const Weights found = Train(2, {}, [](Training& training) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), 0, kBatch));
    const auto backward = [&](TrainingStep& step) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
      return step.Backward(loss);
    };
    auto first = std::make_unique<TrainingStep>(*training.sharded, TrainingStepOptions{2});
    ZEROTH_RETURN_IF_ERROR(backward(*first));
    {
      // Computations in its context belong to the first one, and are dropped with it.
      TrainingStep second(*training.sharded);
      EXPECT_TRUE(absl::IsFailedPrecondition(backward(second)));
      first.reset();
      ExpectRefused(second, *training.optimizer, "another TrainingStep");
    }
    // The gradients of a released step, whole or not, stay.
    for (const int64_t micro_batches : {1, 2}) {
      TrainingStep released(*training.sharded, {.micro_batches = micro_batches});
      ZEROTH_RETURN_IF_ERROR(backward(released));
      released.Release();
      TrainingStep next(*training.sharded);
      ExpectRefused(next, *training.optimizer, "gradients of a step that was released");
      ZEROTH_RETURN_IF_ERROR(training.sharded->sharding().scheduler().Abandon());
    }
    // A step that has ended leaves the next one's draws alone.
    auto ended = std::make_unique<TrainingStep>(*training.sharded);
    ZEROTH_RETURN_IF_ERROR(ended->EndStep());
    TrainingStep live(*training.sharded);
    live.context().set_draws(StepDraws());
    ended.reset();
    EXPECT_TRUE(live.context().draws().has_value());
    ZEROTH_RETURN_IF_ERROR(live.EndStep());
    return ThreeSteps(training);
  });
  EXPECT_EQ(found, Train(2, {}, ThreeSteps));
}

TEST(ApiTest, AStepWithoutFiniteGradientsIsSkipped) {
  const Weights found = Train(2, {}, [](Training& training) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const Weights before, WeightsOf(training.sharded->sharding()));
    TrainingStep step(*training.sharded,
                      {.loss_scale = static_cast<double>(std::numeric_limits<float>::infinity())});
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), 0, kBatch));
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    ZEROTH_RETURN_IF_ERROR(step.Update(*training.optimizer));
    EXPECT_TRUE(step.skipped());
    EXPECT_EQ(training.optimizer->step(), 0);
    ZEROTH_ASSIGN_OR_RETURN(const Weights after, WeightsOf(training.sharded->sharding()));
    EXPECT_EQ(after, before);
    return ThreeSteps(training);
  });
  EXPECT_EQ(found, Train(2, {}, ThreeSteps));
}

TEST(ApiTest, ResumesFromACheckpointAtAnotherWorldSize) {
  const std::string out = ::testing::TempDir() + "/api_checkpoint";
  const auto step = [](int64_t at) {
    return [at](Training& training) { return training.Step(at); };
  };
  const Weights saved = Train(2, {}, [&](Training& training) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(training.Step(0));
    ZEROTH_RETURN_IF_ERROR(training.sharded->Save(out, training.optimizer.get()));
    EXPECT_TRUE(absl::IsAlreadyExists(training.sharded->Save(out, training.optimizer.get())));
    return absl::OkStatus();
  });
  const auto load = [&](Training& training) -> absl::Status {
    // An evaluation may leave a prefetched gather of a unit that it did not reach.
    Sharding& sharding = training.sharded->sharding();
    ZEROTH_RETURN_IF_ERROR(
        sharding.scheduler().Unshard(*sharding.units().back(), /*async=*/true).status());
    ZEROTH_RETURN_IF_ERROR(training.sharded->Load(out, training.optimizer.get()));
    EXPECT_EQ(training.sharded->steps(), 1);
    EXPECT_EQ(training.optimizer->step(), 1);
    return absl::OkStatus();
  };
  EXPECT_EQ(Train(3, {.strategy = "no_shard"}, load), saved);
  // With moments and the count of steps, the next step is the undisturbed run's.
  EXPECT_EQ(Train(2, {.strategy = "shard_grad_op"},
                  [&](Training& training) -> absl::Status {
                    ZEROTH_RETURN_IF_ERROR(load(training));
                    return step(1)(training);
                  }),
            Train(2, {}, [&](Training& training) -> absl::Status {
              ZEROTH_RETURN_IF_ERROR(step(0)(training));
              return step(1)(training);
            }));
  Train(2, {}, [&](Training& training) -> absl::Status {
    EXPECT_TRUE(absl::IsNotFound(training.sharded->Load(out + "_none")));
    return absl::OkStatus();
  });
  // If the file system cannot tell what exists, NotFound would make a program start over. This path
  // has room for no name.
  std::string deep = out + "_deep";
  while (deep.size() < 4085)
    deep += "/" + std::string(std::min<size_t>(200, 4089 - deep.size()), 'd');
  std::filesystem::create_directories(deep);
  Train(2, {}, [&](Training& training) -> absl::Status {
    const absl::Status failed = training.sharded->Load(deep);
    EXPECT_FALSE(failed.ok() || absl::IsNotFound(failed)) << failed;
    EXPECT_TRUE(absl::StrContains(failed.message(), "cannot look for ")) << failed;
    return absl::OkStatus();
  });
}

// A program that gets SIGTERM in the middle of a step may save there.
TEST(ApiTest, ASaveWithinAStepHasTheStateBeforeTheStep) {
  const Weights expected = Train(2, {}, ThreeSteps);
  const std::string out = ::testing::TempDir() + "/api_save_within";
  const Weights undisturbed = Train(2, {}, [&](Training& training) -> absl::Status {
    ZEROTH_RETURN_IF_ERROR(training.Step(0));
    TrainingStep step(*training.sharded);
    const int64_t at = training.rank.world_size() + training.rank.index();
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), at * kBatch, kBatch));
    ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
    ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    ZEROTH_RETURN_IF_ERROR(training.sharded->Save(out, training.optimizer.get()));
    ZEROTH_RETURN_IF_ERROR(step.Update(*training.optimizer, {.clip_grad_norm = 0.5}));
    return training.Step(2);
  });
  EXPECT_EQ(undisturbed, expected);
  const Weights resumed = Train(2, {.strategy = "no_shard"}, [&](Training& training) {
    EXPECT_EQ(training.sharded->Load(out, training.optimizer.get()), absl::OkStatus());
    EXPECT_EQ(training.sharded->steps(), 1);
    EXPECT_EQ(training.Step(1), absl::OkStatus());
    return training.Step(2);
  });
  EXPECT_EQ(resumed, expected);
}

TEST(ApiTest, ALoadWithinAStepIsRefusedAndChangesNothing) {
  const std::string out = ::testing::TempDir() + "/api_within";
  const Weights found = Train(2, {}, [&](Training& training) -> absl::Status {
    ShardedModule& sharded = *training.sharded;
    ZEROTH_RETURN_IF_ERROR(sharded.Save(out));
    ZEROTH_RETURN_IF_ERROR(ThreeSteps(training));
    TrainingStep step(sharded, {.micro_batches = 2});
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), 0, kBatch));
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
      ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
      EXPECT_TRUE(absl::IsFailedPrecondition(sharded.Load(out)));
      EXPECT_TRUE(sharded.status().ok()) << sharded.status();
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(found, Train(2, {}, ThreeSteps));
}

// Rank 1's batch fails before it meets the other rank, so that rank 0 alone is within a step.
TEST(ApiTest, ALoadWithinTheStepOfOneRankChangesNothingOnAny) {
  const std::string out = ::testing::TempDir() + "/api_within_one";
  const ShardingOptions options = {.strategy = "no_shard"};
  const Weights found = Train(2, options, [&](Training& training) -> absl::Status {
    ShardedModule& sharded = *training.sharded;
    ZEROTH_RETURN_IF_ERROR(sharded.Save(out));
    ZEROTH_RETURN_IF_ERROR(ThreeSteps(training));
    TrainingStep step(sharded);
    ZEROTH_ASSIGN_OR_RETURN(Batch batch, Rows(training.rank.device(), 0, kBatch));
    if (training.rank.index() == 1) batch.inputs = batch.labels;
    EXPECT_EQ(training.model.Loss(step.context(), batch).ok(), training.rank.index() == 0);
    EXPECT_TRUE(absl::IsFailedPrecondition(sharded.Load(out)));
    EXPECT_TRUE(sharded.status().ok()) << sharded.status();
    return absl::OkStatus();
  });
  EXPECT_EQ(found, Train(2, options, ThreeSteps));
}

TEST(ApiTest, APartialLoadRefusesFurtherCalls) {
  const std::string out = ::testing::TempDir() + "/api_damaged";
  Train(2, {}, [&](Training& training) -> absl::Status {
    ShardedModule& sharded = *training.sharded;
    ZEROTH_RETURN_IF_ERROR(training.Step(0));
    ZEROTH_RETURN_IF_ERROR(sharded.Save(out + "_whole", training.optimizer.get()));
    ZEROTH_RETURN_IF_ERROR(training.Step(1));
    ZEROTH_RETURN_IF_ERROR(sharded.Save(out, training.optimizer.get()));
    if (training.rank.index() == 0) {
      std::string data;  // the last rank's file
      for (const auto& file : std::filesystem::recursive_directory_iterator(out)) {
        const std::string path = file.path().string();
        if (file.is_regular_file() && file.path().extension() != ".json")
          data = std::max(data, path);
      }
      std::fstream file(data, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-8, std::ios::end);
      file << "damaged!";
    }
    ZEROTH_RETURN_IF_ERROR(training.Step(2));
    EXPECT_TRUE(absl::IsDataLoss(sharded.Load(out, training.optimizer.get())));
    EXPECT_TRUE(absl::IsDataLoss(sharded.status()));
    EXPECT_EQ(sharded.steps(), 3);
    EXPECT_EQ(training.optimizer->step(), 3);
    EXPECT_TRUE(absl::IsDataLoss(training.Step(3)));
    EXPECT_TRUE(absl::IsDataLoss(sharded.Save(out, training.optimizer.get())));
    ZEROTH_RETURN_IF_ERROR(sharded.Load(out + "_whole", training.optimizer.get()));
    EXPECT_EQ(sharded.steps(), 1);
    return training.Step(1);
  });
}

// Compares a unit without a module with the same arithmetic in float64.
TEST(ApiTest, GradientsByHandAddUp) {
  RunOptions run;
  run.launch.world_size = 2;
  const absl::Status status = RunRanks(run, [](Rank& rank) -> absl::Status {
    Parameter weight("weight", Shape({3}), Initializer::Normal(1.0f));
    ZEROTH_ASSIGN_OR_RETURN(const auto sharded, FullyShard(rank, {{"unit", {&weight}}}));
    ZEROTH_ASSIGN_OR_RETURN(const auto optimizer, AdamW::Create(*sharded, {}));
    TrainingStep step(*sharded, {.micro_batches = 3});
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      ZEROTH_ASSIGN_OR_RETURN(UnitPass forward, step.Forward("unit"));
      EXPECT_TRUE(weight.data().defined());
      EXPECT_FALSE(forward.Gradient(weight).ok());
      ZEROTH_RETURN_IF_ERROR(forward.End());
      EXPECT_FALSE(forward.End().ok());
      ZEROTH_ASSIGN_OR_RETURN(UnitPass backward, step.Backward("unit"));
      for (const float part : {1.0f, 2.0f}) {
        ZEROTH_ASSIGN_OR_RETURN(const Tensor gradient, backward.Gradient(weight));
        for (int i = 0; i < 3; ++i) {
          gradient.data<float>()[i] += step.loss_factor() * part *
                                       static_cast<float>((micro_batch + 1) * (rank.index() + 1));
        }
      }
      ZEROTH_RETURN_IF_ERROR(backward.End());
      ZEROTH_RETURN_IF_ERROR(step.FinishBackward());
    }
    // The mean over micro-batches and ranks of 3 * (m + 1) * (r + 1), three times.
    ZEROTH_ASSIGN_OR_RETURN(const Tensor norm, step.GradNormAndScale(0));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, norm.ToHost<float>());
    EXPECT_NEAR(values[0], std::sqrt(3.0) * 3 * 2 * 1.5, 1e-5);
    return step.Update(*optimizer);
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ApiTest, MisuseIsNamed) {
  Train(2, {}, [](Training& training) -> absl::Status {
    const auto expect = [](const absl::Status& status, absl::StatusCode code, const char* words) {
      EXPECT_EQ(status.code(), code) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
    };
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, Rows(training.rank.device(), 0, kBatch));
    {
      TrainingStep step(*training.sharded);
      expect(step.Update(*training.optimizer), absl::StatusCode::kFailedPrecondition,
             "0 of 1 micro-batches");
      expect(step.Forward("nonesuch").status(), absl::StatusCode::kNotFound, "root");
      expect(step.Backward(Value{batch.inputs}), absl::StatusCode::kFailedPrecondition,
             "not recorded");
    }
    {
      TrainingStep step(*training.sharded);
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
      ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
      expect(step.Backward(loss), absl::StatusCode::kFailedPrecondition,
             "another backward after 1 of 1 micro-batches");
      expect(step.Update(*training.optimizer, {.lr = std::nan("")}),
             absl::StatusCode::kInvalidArgument, "learning rate of step 1 is nan");
      expect(step.Update(*training.optimizer, {.clip_grad_norm = std::nan("")}),
             absl::StatusCode::kInvalidArgument, "the largest norm is nan");
      ZEROTH_RETURN_IF_ERROR(step.Update(*training.optimizer));
      expect(step.Update(*training.optimizer), absl::StatusCode::kFailedPrecondition,
             "the step has ended");
    }
    {
      TrainingStep step(*training.sharded);
      ZEROTH_ASSIGN_OR_RETURN(UnitPass pass, step.Forward("root"));
      expect(step.FinishBackward(), absl::StatusCode::kFailedPrecondition, "have not ended");
      ZEROTH_RETURN_IF_ERROR(pass.End());
    }
    {
      TrainingStep step(*training.sharded);
      { ZEROTH_RETURN_IF_ERROR(step.Forward("root").status()); }
      expect(step.Forward("root").status(), absl::StatusCode::kFailedPrecondition,
             "pass over unit 'root' went without End");
    }
    {
      TrainingStep step(*training.sharded);
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
      ZEROTH_ASSIGN_OR_RETURN(const Value twice, AddOp(step.context(), loss, loss));
      expect(step.Backward(twice), absl::StatusCode::kFailedPrecondition,
             "follows a loss, or stands beside one, whose gradients were computed together");
    }
    // A second loss, such as that of an evaluation batch, computes gradients too. After the error
    // they must not remain in the step.
    std::vector<double> norms;
    for (const bool another : {true, false}) {
      TrainingStep step(*training.sharded, {.micro_batches = 2, .sync_every_micro_batch = false});
      if (another) {
        ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
        ZEROTH_RETURN_IF_ERROR(training.model.Loss(step.context(), batch).status());
        expect(step.Backward(loss), absl::StatusCode::kFailedPrecondition, "under NoGradient");
      }
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
        ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
      }
      ZEROTH_ASSIGN_OR_RETURN(const Tensor norm, step.GradNormAndScale(0));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, norm.ToHost<float>());
      norms.push_back(static_cast<double>(values[0]));
    }
    EXPECT_EQ(norms[0], norms[1]);
    {
      TrainingStep step(*training.sharded);
      ZEROTH_ASSIGN_OR_RETURN(const Value x,
                              training.model.hidden->Forward(step.context(), {batch.inputs}));
      expect(step.Backward(x), absl::StatusCode::kInvalidArgument, "expected one element");
    }
    // A scale of 0 would skip every step.
    for (const TrainingStepOptions& options :
         {TrainingStepOptions{.micro_batches = 0}, TrainingStepOptions{.loss_divisor = -1},
          TrainingStepOptions{.loss_scale = 0}, TrainingStepOptions{.loss_scale = std::nan("")}}) {
      TrainingStep step(*training.sharded, options);
      expect(step.Forward("root").status(), absl::StatusCode::kInvalidArgument,
             "at least 1, at least 0, and a scale above 0");
      ZEROTH_ASSIGN_OR_RETURN(const Value loss, training.model.Loss(step.context(), batch));
      expect(step.Backward(loss), absl::StatusCode::kInvalidArgument, "micro_batches = ");
      expect(step.Update(*training.optimizer), absl::StatusCode::kInvalidArgument, "loss_scale = ");
    }
    expect(FullyShard(training.rank, training.model).status(),
           absl::StatusCode::kFailedPrecondition, "belongs to another sharding");
    return ThreeSteps(training);
  });
  EXPECT_EQ(RunRanks(2, [](Rank&) { return absl::InternalError("as told"); }), 1);
  EXPECT_EQ(RunRanks(2, [](Rank&) { return absl::OkStatus(); }), 0);
}

TEST(ApiTest, OptimizersAreFoundByName) {
  Train(1, {}, [](Training& training) -> absl::Status {
    Sharding& sharding = training.sharded->sharding();
    Kernels& kernels = training.sharded->kernels();
    EXPECT_TRUE(OptimizerRegistry::Create("adamw", sharding, kernels, {}).ok());
    const absl::Status unknown =
        OptimizerRegistry::Create("nonesuch", sharding, kernels, {}).status();
    EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(unknown.message(), "adamw")) << unknown;
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace zeroth
