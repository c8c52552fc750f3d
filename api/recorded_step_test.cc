// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Recorded steps must train to the same bits as enqueued ones, whatever changes from step to step
// and whatever happens in between. Needs a device that records.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/comm/nccl/testing/nccl_gpus.h"
#include "zeroth/core/comm/nccl/testing/nccl_test_ranks.h"
#include "zeroth/core/device/testing/missing_device.h"
#include "zeroth/optim/shard_state.h"
#include "zeroth/strategies/strategy.h"

namespace zeroth {
namespace {

constexpr int64_t kVocab = 13;

nlohmann::json Config(const std::string& model) {
  if (model == "gpt2") {
    return {{"model_type", "gpt2"},
            {"vocab_size", kVocab},
            {"n_positions", 32},
            {"n_embd", 16},
            {"n_layer", 2},
            {"n_head", 2},
            {"layer_norm_epsilon", 1e-5},
            {"initializer_range", 0.02}};
  }
  return {{"model_type", "llama"},    {"vocab_size", kVocab},      {"max_position_embeddings", 32},
          {"hidden_size", 16},        {"intermediate_size", 24},   {"num_hidden_layers", 2},
          {"num_attention_heads", 2}, {"num_key_value_heads", 1},  {"rope_theta", 10000.0},
          {"rms_norm_eps", 1e-5},     {"initializer_range", 0.02}, {"tie_word_embeddings", false}};
}

Batch RandomBatch(const std::string& name, int64_t rows, int64_t seq) {
  std::vector<float> draws(static_cast<size_t>(2 * rows * seq));
  CounterRng(11, name).FillNormal(0, 1, absl::MakeSpan(draws));
  Batch batch;
  batch.batch = rows;
  batch.seq = seq;
  for (size_t i = 0; i < draws.size(); ++i) {
    const auto token = static_cast<int32_t>(std::abs(draws[i]) * 1000) % kVocab;
    (i % 2 == 0 ? batch.inputs : batch.targets).push_back(static_cast<int32_t>(token));
  }
  return batch;
}

struct RunSetup {
  int ranks = 1;  // more than one: of NCCL
  std::string model = "gpt2";
  std::string strategy = "full_shard";
  bool shard_optimizer_over_world = false;
  MixedPrecision precision;
  int64_t micro_batches = 1;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kNone;
  DType state_dtype = DType::kFloat32;  // of moments
  OffloadOptions offload;
  bool fp8 = false;
  KernelOptions kernels;
};

// All results of a run, as rank 0 sees them.
struct Trace {
  absl::Status status;
  std::vector<float> numbers;
  std::vector<int64_t> activation_allocations;  // of each step: none if it was replayed
  std::map<std::string, std::vector<float>> weights;
};

class TrainingRun {
 public:
  TrainingRun(Trainer& trainer, const RunSetup& setup, Trace& trace)
      : trainer_(trainer), setup_(setup), trace_(trace) {}

  Trainer& trainer() { return trainer_; }

  absl::Status Step(int64_t rows = 2, int64_t seq = 5) {
    const std::string name = "step" + std::to_string(steps_);
    std::vector<Batch> batches;
    for (int64_t i = 0; i < setup_.micro_batches; ++i) {
      batches.push_back(RandomBatch(name + "." + std::to_string(i), rows, seq));
    }
    ++steps_;
    return StepOn(batches, 1e-2 / static_cast<double>(steps_), /*stop=*/steps_ % 3 == 0);
  }

  absl::Status StepOn(const std::vector<Batch>& batches, double lr, bool stop = false) {
    const int64_t before = Allocations();
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer_.Step(batches, lr, stop));
    trace_.activation_allocations.push_back(Allocations() - before);
    EXPECT_EQ(result.stop, stop);
    trace_.numbers.push_back(result.loss);
    trace_.numbers.push_back(static_cast<float>(result.grad_norm));
    trace_.numbers.push_back(result.skipped ? 1.0f : 0.0f);
    return absl::OkStatus();
  }

  absl::Status Evaluate(int64_t rows, int64_t seq) {
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                            trainer_.Evaluate(RandomBatch("eval", rows, seq)));
    trace_.numbers.push_back(result.loss);
    return absl::OkStatus();
  }

  absl::Status Sample() {
    const std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
    ZEROTH_ASSIGN_OR_RETURN(const Tensor logits, trainer_.Logits(tokens, 4));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, logits.ToHost<float>());
    trace_.numbers.insert(trace_.numbers.end(), values.begin(), values.end());
    return absl::OkStatus();
  }

 private:
  int64_t Allocations() {
    return trainer_.device().allocator().stats()[MemoryCategory::kActivations].allocations;
  }

  Trainer& trainer_;
  const RunSetup& setup_;
  Trace& trace_;
  int64_t steps_ = 0;
};

using Course = std::function<absl::Status(TrainingRun&)>;

Trace Follow(const RunSetup& setup, bool record_steps, const Course& course) {
  Trace first;
  const RankMain main = [&](Communicator& world) -> absl::Status {
    Trace of_other_rank;
    Trace& trace = world.rank() == 0 ? first : of_other_rank;
    DeviceOptions on;
    on.index = world.device_index();
    on.transport_memory = world.memory_source();
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cuda", on));
    device->BindThread();
    ModelOptions model_options;
    model_options.fp8 = setup.fp8;
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                            ModelRegistry::Create(Config(setup.model), model_options));
    TrainerOptions options;
    options.kernels = setup.kernels;
    options.sharding.strategy = setup.strategy;
    if (setup.strategy == "hybrid_shard") options.sharding.strategy_options.shard_size = 1;
    options.sharding.strategy_options.shard_optimizer_over_world = setup.shard_optimizer_over_world;
    options.sharding.mixed_precision = setup.precision;
    options.sharding.offload = setup.offload;
    options.activation_checkpointing = setup.activation_checkpointing;
    options.optimizer_options.state_dtype = setup.state_dtype;
    options.optimizer_options.min_8bit_numel = 0;  // all parameters here are small
    options.clip_grad_norm = 0.5;
    options.record_steps = record_steps;
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                            Trainer::Create(world, *device, std::move(model), options));
    for (const ShardState& state : trainer->optimizer().states()) {
      if (state.name != "m") continue;
      EXPECT_EQ(state.shard.dtype(), setup.state_dtype);
    }
    ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(5));
    TrainingRun run(*trainer, setup, trace);
    ZEROTH_RETURN_IF_ERROR(course(run));
    return trainer->sharding().VisitShards(
        [&](const Parameter& parameter, int64_t, absl::Span<const float> values) {
          std::vector<float>& all = trace.weights[parameter.name()];
          all.insert(all.end(), values.begin(), values.end());
          return absl::OkStatus();
        });
  };
  LaunchOptions launch;
  launch.world_size = setup.ranks;
  first.status = setup.ranks == 1 ? RunLocalRanks(1, main) : testing::RunNcclThreads(launch, main);
  return first;
}

// NaNs too.
void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
        << i << ": " << a[i] << " and " << b[i];
  }
}

// Returns how many steps of the recorded run allocated nothing: the replayed ones.
int ExpectTheSameBits(const RunSetup& setup, const Course& course) {
  const Trace eager = Follow(setup, /*record_steps=*/false, course);
  const Trace recorded = Follow(setup, /*record_steps=*/true, course);
  EXPECT_TRUE(eager.status.ok()) << eager.status;
  EXPECT_TRUE(recorded.status.ok()) << recorded.status;
  ExpectSameBits(eager.numbers, recorded.numbers);
  EXPECT_FALSE(eager.weights.empty());
  EXPECT_EQ(eager.weights, recorded.weights);
  for (const int64_t allocations : eager.activation_allocations) EXPECT_GT(allocations, 0);
  int played = 0;
  for (const int64_t allocations : recorded.activation_allocations) played += allocations == 0;
  return played;
}

absl::Status Steps(TrainingRun& run, int count) {
  for (int i = 0; i < count; ++i) ZEROTH_RETURN_IF_ERROR(run.Step());
  return absl::OkStatus();
}

constexpr MixedPrecision kFloat32 = {DType::kFloat32, DType::kFloat32};
constexpr MixedPrecision kBFloat16 = {DType::kBFloat16, DType::kFloat32};
constexpr MixedPrecision kAllBFloat16 = {DType::kBFloat16, DType::kBFloat16};

class RecordedStepTest : public ::testing::Test {
 protected:
  void SetUp() override { ZEROTH_SKIP_WITHOUT_DEVICE("cuda"); }
};

class RecordedStrategiesTest
    : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  void SetUp() override { ZEROTH_SKIP_WITHOUT_DEVICE("cuda"); }
};

TEST_P(RecordedStrategiesTest, HaveTheBitsOfStepsThatAreEnqueued) {
  for (const MixedPrecision& precision : {kFloat32, kBFloat16, kAllBFloat16}) {
    RunSetup setup;
    std::tie(setup.model, setup.strategy) = GetParam();
    setup.precision = precision;
    // Two before the recording, one while it is made, and the rest.
    EXPECT_EQ(ExpectTheSameBits(setup, [](TrainingRun& run) { return Steps(run, 5); }), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RecordedStrategiesTest,
    ::testing::Combine(::testing::Values("gpt2", "llama"),
                       ::testing::Values("no_shard", "shard_optimizer", "shard_grad_op",
                                         "full_shard", "hybrid_shard")),
    [](const ::testing::TestParamInfo<std::tuple<const char*, const char*>>& instance) {
      return std::string(std::get<0>(instance.param)) + "_" + std::get<1>(instance.param);
    });

// A step that was recorded must not round by the draws of the step that it was recorded in.
TEST_F(RecordedStepTest, RoundingContinuesByTheStep) {
  for (const DType state_dtype : {DType::kBFloat16, DType::kUInt8}) {
    RunSetup setup;
    setup.precision = {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16};
    setup.state_dtype = state_dtype;
    EXPECT_EQ(ExpectTheSameBits(setup, [](TrainingRun& run) { return Steps(run, 6); }), 3);
  }
}

TEST_F(RecordedStepTest, TransfersOfOffloadedStateAreRecordedToo) {
  for (const char* const strategy : {"no_shard", "full_shard"}) {
    for (const MixedPrecision& precision : {kFloat32, kAllBFloat16}) {
      for (const int64_t micro_batches : {1, 2}) {
        RunSetup setup;
        setup.strategy = strategy;
        setup.precision = precision;
        setup.micro_batches = micro_batches;
        setup.offload.parameters = true;
        setup.offload.gradients = true;
        setup.offload.optimizer = true;
        setup.offload.chunk_numel = 100;
        EXPECT_EQ(ExpectTheSameBits(setup, [](TrainingRun& run) { return Steps(run, 5); }), 2);
        const Course course = [](TrainingRun& run) { return Steps(run, 5); };
        const Trace offloaded = Follow(setup, /*record_steps=*/true, course);
        setup.offload = OffloadOptions();
        const Trace in_memory = Follow(setup, /*record_steps=*/false, course);
        ExpectSameBits(offloaded.numbers, in_memory.numbers);
        EXPECT_EQ(offloaded.weights, in_memory.weights);
      }
    }
  }
}

TEST_F(RecordedStepTest, NamesEveryStrategy) {
  // The list above is by hand, so that tests have names without a device.
  EXPECT_EQ(StrategyRegistry::Names(),
            (std::vector<std::string>{"full_shard", "hybrid_shard", "no_shard", "shard_grad_op",
                                      "shard_optimizer"}));
}

TEST_F(RecordedStepTest, EvaluationAndSamplesInBetweenDisturbNothing) {
  for (const char* const model : {"gpt2", "llama"}) {
    RunSetup setup;
    setup.model = model;
    setup.precision = kBFloat16;
    EXPECT_EQ(ExpectTheSameBits(setup,
                                [](TrainingRun& run) -> absl::Status {
                                  ZEROTH_RETURN_IF_ERROR(run.Evaluate(1, 3));
                                  for (int i = 0; i < 5; ++i) {
                                    ZEROTH_RETURN_IF_ERROR(run.Step());
                                    // Longer than a step's: tables that grow are reallocated.
                                    ZEROTH_RETURN_IF_ERROR(run.Evaluate(1, i < 3 ? 5 : 9));
                                    ZEROTH_RETURN_IF_ERROR(run.Sample());
                                  }
                                  return absl::OkStatus();
                                }),
              2);
  }
}

// An evaluation keeps slices of parameters that it gathered from other groups: they are of its
// weights, and not of those of a later step.
TEST_F(RecordedStepTest, WeightsThatAnEvaluationGatheredAreNotThoseOfLaterSteps) {
  ZEROTH_SKIP_BEYOND_NCCL_RANKS(2);
  RunSetup setup;
  setup.ranks = 2;
  setup.strategy = "hybrid_shard";
  setup.shard_optimizer_over_world = true;
  EXPECT_EQ(ExpectTheSameBits(setup,
                              [](TrainingRun& run) -> absl::Status {
                                ZEROTH_RETURN_IF_ERROR(Steps(run, 2));
                                for (int i = 0; i < 3; ++i) {  // recorded, then played twice
                                  ZEROTH_RETURN_IF_ERROR(run.Evaluate(2, 5));
                                  ZEROTH_RETURN_IF_ERROR(run.Step());
                                }
                                return run.Evaluate(2, 5);
                              }),
            2);
}

TEST_F(RecordedStepTest, StepsOfAnotherShapeAreEnqueued) {
  EXPECT_EQ(ExpectTheSameBits(RunSetup(),
                              [](TrainingRun& run) -> absl::Status {
                                ZEROTH_RETURN_IF_ERROR(run.Step(1, 3));
                                ZEROTH_RETURN_IF_ERROR(Steps(run, 4));
                                ZEROTH_RETURN_IF_ERROR(run.Step(3, 4));
                                ZEROTH_RETURN_IF_ERROR(run.Step(3, 4));
                                ZEROTH_RETURN_IF_ERROR(run.Step(3, 4));
                                return Steps(run, 2);
                              }),
            3);
}

TEST_F(RecordedStepTest, MicroBatchesAndRecomputationAreRecorded) {
  RunSetup setup;
  setup.micro_batches = 3;
  for (const auto what : {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective}) {
    setup.activation_checkpointing = what;
    EXPECT_EQ(ExpectTheSameBits(setup, [](TrainingRun& run) { return Steps(run, 5); }), 2);
  }
}

TEST_F(RecordedStepTest, Tf32ReachesTheMatmulsOfTraining) {
  RunSetup setup;
  const Course course = [](TrainingRun& run) { return Steps(run, 4); };
  const Trace ieee = Follow(setup, /*record_steps=*/false, course);
  setup.kernels.fp32_precision = Fp32Precision::kTf32;
  EXPECT_EQ(ExpectTheSameBits(setup, course), 1);
  const Trace tf32 = Follow(setup, /*record_steps=*/false, course);
  ASSERT_EQ(tf32.numbers.size(), ieee.numbers.size());
  // A loss, a gradient norm and a flag for each step.
  for (size_t i = 0; i < tf32.numbers.size(); ++i) {
    EXPECT_NEAR(tf32.numbers[i], ieee.numbers[i], 0.01f * std::abs(ieee.numbers[i])) << i;
  }
  EXPECT_NE(tf32.numbers, ieee.numbers);
}

// Scales that stay on the device are computed again in every replayed step.
TEST_F(RecordedStepTest, ScalesOfFp8AreThoseOfTheStep) {
  for (const char* const model : {"gpt2", "llama"}) {
    RunSetup setup;
    setup.model = model;
    setup.precision = kBFloat16;
    setup.fp8 = true;
    EXPECT_EQ(ExpectTheSameBits(setup, [](TrainingRun& run) { return Steps(run, 5); }), 2);
  }
}

TEST_F(RecordedStepTest, FreezingAParameterMakesANewRecording) {
  EXPECT_EQ(
      ExpectTheSameBits(
          RunSetup(),
          [](TrainingRun& run) -> absl::Status {
            ZEROTH_RETURN_IF_ERROR(Steps(run, 4));
            run.trainer().sharding().units().back()->parameters().front()->set_requires_grad(false);
            return Steps(run, 5);
          }),
      1 + 2);
}

TEST_F(RecordedStepTest, AStepThatIsSkippedDoesNotCount) {
  EXPECT_EQ(ExpectTheSameBits(RunSetup(),
                              [](TrainingRun& run) -> absl::Status {
                                ZEROTH_RETURN_IF_ERROR(Steps(run, 4));
                                const std::vector<Batch> batch = {RandomBatch("endless", 2, 5)};
                                Sharding& sharding = run.trainer().sharding();
                                // One infinite weight makes every gradient NaN; it is put back
                                // afterwards.
                                float kept = 0;
                                const Unit& last = *sharding.units().back();
                                const Tensor weight = last.ShardState(0).tensor().View(0, {1});
                                ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> read,
                                                        weight.ToHost<float>());
                                kept = read[0];
                                Device& device = run.trainer().device();
                                Stream& stream = device.compute_stream();
                                const float infinity = std::numeric_limits<float>::infinity();
                                ZEROTH_RETURN_IF_ERROR(device.CopyFromHost(
                                    weight.raw_data(), &infinity, sizeof(float), stream));
                                ZEROTH_RETURN_IF_ERROR(run.StepOn(batch, 0.1));
                                ZEROTH_RETURN_IF_ERROR(device.CopyFromHost(weight.raw_data(), &kept,
                                                                           sizeof(float), stream));
                                EXPECT_EQ(run.trainer().optimizer().step(), 4);
                                return Steps(run, 2);
                              }),
            4);
}

TEST_F(RecordedStepTest, BadDataInAPlayedStepIsTheErrorOfThatStep) {
  const Trace trace =
      Follow(RunSetup(), /*record_steps=*/true, [](TrainingRun& run) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(Steps(run, 4));
        std::vector<Batch> batch = {RandomBatch("bad", 2, 5)};
        batch[0].inputs[6] = kVocab;
        return run.StepOn(batch, 0.1);
      });
  EXPECT_EQ(trace.numbers.size(), 4u * 3) << "four steps, and not the fifth";
  EXPECT_EQ(trace.status.code(), absl::StatusCode::kInvalidArgument) << trace.status;
  EXPECT_NE(trace.status.ToString().find("tokens[1, 1] is 13"), std::string::npos) << trace.status;
}

TEST_F(RecordedStepTest, TheMemoryOfOneStepStaysAllocated) {
  const Trace trace =
      Follow(RunSetup(), /*record_steps=*/true, [&](TrainingRun& run) -> absl::Status {
        ZEROTH_RETURN_IF_ERROR(Steps(run, 2));
        Allocator& allocator = run.trainer().device().allocator();
        const int64_t eager_peak = allocator.stats().total.peak_bytes;
        const int64_t between = allocator.stats().total.current_bytes;
        const int64_t reserved = allocator.stats().reserved_bytes;
        ZEROTH_RETURN_IF_ERROR(Steps(run, 4));
        const MemoryStats stats = allocator.stats();
        EXPECT_GT(stats[MemoryCategory::kActivations].current_bytes, 0);
        EXPECT_GT(stats.total.current_bytes, between + (eager_peak - between) / 2);
        EXPECT_LE(stats.total.peak_bytes, eager_peak + 2048) << "inputs and results apart";
        // Under the address sanitizer blocks are segments, and each size is allocated anew.
        EXPECT_LE(stats.reserved_bytes, 2 * reserved);
        return absl::OkStatus();
      });
  EXPECT_TRUE(trace.status.ok()) << trace.status;
}

TEST_F(RecordedStepTest, SeveralRanksOfOneProcessAreRefused) {
  const absl::Status status = RunLocalRanks(2, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cuda", DeviceOptions()));
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                            ModelRegistry::Create(Config("gpt2")));
    TrainerOptions options;
    options.record_steps = true;
    return Trainer::Create(world, *device, std::move(model), options).status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_NE(status.ToString().find("local world ranks [0, 1]"), std::string::npos) << status;
}

}  // namespace
}  // namespace zeroth
