// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Training with 8-bit GEMMs is close to training in fp32, and has the same bits however state is
// sharded, recomputed, or divided among tensor ranks.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/strategies/mixed_precision.h"
#include "zeroth/strategies/shard_layout.h"

namespace zeroth {
namespace {

constexpr int kGlobalRows = 4;
// About 3 x 5 tokens per rank: not a multiple of 16, the granularity of the GEMMs.
constexpr int64_t kSeq = 5;
constexpr int64_t kVocabulary = 61;

std::string TestDevice() {
  const char* const device = std::getenv("ZEROTH_TEST_DEVICE");
  return device == nullptr ? "cpu" : device;
}
// Emulation is slow: fewer steps still cover everything.
int Steps() { return TestDevice() == "cpu" ? 20 : 2; }

nlohmann::json ConfigOf(const std::string& family) {
  if (family == "gpt2") {
    return {{"model_type", "gpt2"},
            {"vocab_size", kVocabulary},
            {"n_positions", 8},
            {"n_embd", 64},
            {"n_layer", 2},
            {"n_head", 4},
            {"layer_norm_epsilon", 1e-5}};
  }
  return {
      {"model_type", "llama"},    {"vocab_size", kVocabulary},    {"max_position_embeddings", 8},
      {"hidden_size", 64},        {"intermediate_size", 112},     {"num_hidden_layers", 2},
      {"num_attention_heads", 4}, {"num_key_value_heads", 2},     {"rms_norm_eps", 1e-5},
      {"hidden_act", "silu"},     {"tie_word_embeddings", false}, {"rope_theta", 10000.0}};
}

enum class MatmulDType { kFp32, kBf16, kFp8 };

struct RunSetup {
  std::string family = "gpt2";
  MatmulDType matmul_dtype = MatmulDType::kFp8;
  std::string strategy = "full_shard";
  int world_size = 2;
  int shard_size = 0;
  LayoutKind layout = LayoutKind::kFlat;
  ActivationCheckpointing recompute = ActivationCheckpointing::kNone;
  int micro_batches = 1;  // of a rank and step
  int64_t deterministic_batch = 0;
  int64_t lora_rank = 0;
  double fp16_loss_scale = 0;  // above 0: in fp16 instead of bf16
};

struct Record {
  std::vector<float> losses;
  std::vector<double> grad_norms;
  std::vector<bool> overflowed;
  std::map<std::string, std::vector<float>> weights;
};

// Sequences [first, first + rows) of a step: each counts on from its own start in its own stride,
// which can be learned.
Batch Sequences(int step, int first, int rows) {
  Batch batch;
  batch.batch = rows;
  batch.seq = kSeq;
  for (int row = first; row < first + rows; ++row) {
    const int stride = 1 + row % 2;
    const int start = 7 * row + 11 * step;
    for (int i = 0; i < kSeq; ++i) {
      batch.inputs.push_back((start + i * stride) % static_cast<int>(kVocabulary));
      batch.targets.push_back((start + (i + 1) * stride) % static_cast<int>(kVocabulary));
    }
  }
  return batch;
}

std::vector<Batch> MicroBatches(const RunSetup& setup, int rank, int step) {
  const int count = setup.deterministic_batch > 0
                        ? static_cast<int>(setup.deterministic_batch) / setup.world_size
                        : setup.micro_batches;
  const int rows = kGlobalRows / setup.world_size / count;
  std::vector<Batch> batches;
  for (int i = 0; i < count; ++i) {
    // Trainer distributes micro-batches in this order: one to each rank, then the next.
    batches.push_back(Sequences(step, (i * setup.world_size + rank) * rows, rows));
  }
  return batches;
}

TrainerOptions OptionsOf(const RunSetup& setup) {
  TrainerOptions options;
  options.sharding.strategy = setup.strategy;
  options.sharding.strategy_options.shard_size = setup.shard_size;
  options.sharding.layout = setup.layout;
  if (setup.matmul_dtype != MatmulDType::kFp32) {
    options.sharding.mixed_precision = {DType::kBFloat16, DType::kFloat32};
  }
  if (setup.fp16_loss_scale > 0) {
    options.sharding.mixed_precision = {DType::kFloat16, DType::kFloat16};
    options.loss_scaler.emplace();
    options.loss_scaler->initial_scale = setup.fp16_loss_scale;
  }
  options.activation_checkpointing = setup.recompute;
  options.deterministic_batch = setup.deterministic_batch;
  return options;
}

ModelOptions ModelOptionsOf(const RunSetup& setup) {
  ModelOptions options;
  options.fp8 = setup.matmul_dtype == MatmulDType::kFp8;
  options.lora.rank = setup.lora_rank;
  return options;
}

absl::Status TrainRank(const RunSetup& setup, Communicator& world, std::mutex& mutex,
                       Record& record) {
  DeviceOptions device_options;
  device_options.threads = 1;
  device_options.bits_of_any_team = setup.deterministic_batch > 0;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create(TestDevice(), device_options));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(ConfigOf(setup.family), ModelOptionsOf(setup)));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), OptionsOf(setup)));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(/*seed=*/3));
  for (int step = 0; step < Steps(); ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                            trainer->Step(MicroBatches(setup, world.rank(), step), /*lr=*/3e-3));
    if (world.rank() != 0) continue;
    record.losses.push_back(result.loss);
    record.grad_norms.push_back(result.grad_norm);
    record.overflowed.push_back(result.overflowed);
  }
  return trainer->sharding().VisitShards(
      [&](const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
        const std::lock_guard<std::mutex> lock(mutex);
        std::vector<float>& whole = record.weights[parameter.name()];
        whole.resize(static_cast<size_t>(parameter.numel()));
        std::copy(values.begin(), values.end(), whole.begin() + begin);
        return absl::OkStatus();
      });
}

absl::StatusOr<Record> TryTrain(const RunSetup& setup) {
  std::mutex mutex;
  Record record;
  ZEROTH_RETURN_IF_ERROR(RunLocalRanks(setup.world_size, [&](Communicator& world) {
    return TrainRank(setup, world, mutex, record);
  }));
  return record;
}

Record Train(const RunSetup& setup) {
  absl::StatusOr<Record> record = TryTrain(setup);
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? *std::move(record) : Record();
}

void ExpectSameBits(const Record& a, const Record& b) {
  EXPECT_FALSE(a.losses.empty());
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.grad_norms, b.grad_norms);
  EXPECT_EQ(a.weights, b.weights);
}

struct Distance {
  double loss = 0;  // the largest relative difference of all steps
  double grad_norm = 0;
};

Distance DistanceOf(const Record& record, const Record& reference) {
  Distance distance;
  EXPECT_EQ(record.losses.size(), reference.losses.size());
  for (size_t step = 0; step < record.losses.size(); ++step) {
    const auto of = [](double value, double expected) { return std::abs(value / expected - 1); };
    distance.loss = std::max(distance.loss, of(static_cast<double>(record.losses[step]),
                                               static_cast<double>(reference.losses[step])));
    distance.grad_norm =
        std::max(distance.grad_norm, of(record.grad_norms[step], reference.grad_norms[step]));
  }
  return distance;
}

class Fp8TrainingTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    run_.family = GetParam();
    if (!DeviceRegistry::Create(TestDevice(), DeviceOptions()).ok()) {
      GTEST_SKIP() << "there is no device of type " << TestDevice();
    }
  }

  RunSetup run_;
};

// fp32 replaces the float64 references of //tests/parity, which it matches to 2e-5.
TEST_P(Fp8TrainingTest, StaysNearFp32) {
  const Record fp8 = Train(run_);
  run_.matmul_dtype = MatmulDType::kBf16;
  const Record bf16 = Train(run_);
  run_.matmul_dtype = MatmulDType::kFp32;
  const Record fp32 = Train(run_);
  const Distance far = DistanceOf(fp8, fp32);
  EXPECT_LE(far.loss, 0.015);
  EXPECT_LE(far.grad_norm, 0.07);
  EXPECT_NE(fp8.losses, bf16.losses) << "nothing was multiplied in 8 bits";
}

TEST_P(Fp8TrainingTest, StrategiesAndLayoutsGiveTheSameBits) {
  const int world_size = TestDevice() == "cpu" ? 4 : 2;
  run_.world_size = world_size;
  run_.strategy = "no_shard";
  const Record reference = Train(run_);
  for (const char* const strategy : {"shard_grad_op", "full_shard", "hybrid_shard"}) {
    SCOPED_TRACE(strategy);
    run_.strategy = strategy;
    run_.shard_size = std::string(strategy) == "hybrid_shard" ? world_size / 2 : 0;
    ExpectSameBits(reference, Train(run_));
  }
  run_.strategy = "full_shard";
  run_.shard_size = 0;
  run_.layout = LayoutKind::kRows;
  ExpectSameBits(reference, Train(run_));
}

TEST_P(Fp8TrainingTest, RecomputationHasTheSameBits) {
  const Record kept = Train(run_);
  for (const ActivationCheckpointing recompute :
       {ActivationCheckpointing::kBlock, ActivationCheckpointing::kSelective,
        ActivationCheckpointing::kAttention, ActivationCheckpointing::kMlp,
        ActivationCheckpointing::kElementwise}) {
    run_.recompute = recompute;
    ExpectSameBits(kept, Train(run_));
  }
}

// Each micro-batch has its own scales of activations, wherever it is computed.
TEST_P(Fp8TrainingTest, ADeterministicBatchHasTheSameBitsAtEveryWorldSize) {
  run_.deterministic_batch = 4;
  run_.world_size = 1;
  const Record alone = Train(run_);
  for (const int world_size : {2, 4}) {
    run_.world_size = world_size;
    ExpectSameBits(alone, Train(run_));
  }
}

// Smaller tensors have separate scales, so gradients differ by rounding, and runs diverge in time.
TEST_P(Fp8TrainingTest, MicroBatchesStayNearOneBatch) {
  const Record whole = Train(run_);
  run_.micro_batches = 2;
  const Record parts = Train(run_);
  EXPECT_NEAR(parts.grad_norms[0], whole.grad_norms[0], 0.01 * whole.grad_norms[0]);
  EXPECT_NE(parts.grad_norms[0], whole.grad_norms[0]);
  EXPECT_LE(DistanceOf(parts, whole).loss, 0.02);
}

// An infinite gradient must not become the largest number of a format.
TEST_P(Fp8TrainingTest, OverflowsOfFp16AreNotHiddenByACast) {
  run_.fp16_loss_scale = 1024;
  const Record quiet = Train(run_);
  EXPECT_FALSE(quiet.overflowed[0]);
  run_.fp16_loss_scale = std::ldexp(1.0, 24);
  const Record loud = Train(run_);
  EXPECT_TRUE(loud.overflowed[0]);
  EXPECT_FALSE(std::isfinite(loud.grad_norms[0]));
  EXPECT_NE(loud.losses[1], quiet.losses[1]) << "the first step was not skipped";
  EXPECT_TRUE(std::isfinite(loud.losses.back()));
}

TEST_P(Fp8TrainingTest, AdaptersAreTrainedBesideFrozenWeightsInFp8) {
  run_.lora_rank = 4;
  const Record fp8 = Train(run_);
  run_.matmul_dtype = MatmulDType::kFp32;
  const Record fp32 = Train(run_);
  const Distance distance = DistanceOf(fp8, fp32);
  EXPECT_LE(distance.loss, 0.02);
  EXPECT_LE(distance.grad_norm, 0.15);
  EXPECT_NE(fp8.losses, fp32.losses);
  for (const auto& [name, values] : fp8.weights) {
    const bool adapter = name.find("lora_") != std::string::npos;
    EXPECT_EQ(values == fp32.weights.at(name), !adapter) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Fp8TrainingTest, testing::Values("gpt2", "llama"),
                         [](const auto& instance) { return std::string(instance.param); });

std::unique_ptr<LanguageModel> Build(const nlohmann::json& config) {
  ModelOptions options;
  options.fp8 = true;
  absl::StatusOr<std::unique_ptr<LanguageModel>> model = ModelRegistry::Create(config, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(Fp8LayersTest, AreTheBlocksLinearLayersAndNeitherHeadNorEmbeddings) {
  EXPECT_EQ(FindFp8Layers(*Build(ConfigOf("gpt2"))).in_fp8.size(), 8u);
  const Fp8Layers llama = FindFp8Layers(*Build(ConfigOf("llama")));
  EXPECT_TRUE(llama.others.empty());
  for (const std::string& name : llama.in_fp8) {
    EXPECT_NE(name.find("layers."), std::string::npos) << name;
  }
}

TEST(Fp8LayersTest, ALayerCountsByItself) {
  Linear layer("layer", 16, 32);
  EXPECT_EQ(UseFp8(layer), absl::OkStatus());
  EXPECT_EQ(FindFp8Layers(layer).in_fp8, std::vector<std::string>{"layer"});
}

TEST(Fp8LayersTest, WhatDoesNotFitIsNamed) {
  nlohmann::json config = ConfigOf("llama");
  config["intermediate_size"] = 120;
  const Fp8Layers layers = FindFp8Layers(*Build(config));
  EXPECT_EQ(layers.in_fp8.size(), layers.others.size());
  for (const std::string& name : layers.others) {
    EXPECT_NE(name.find("mlp"), std::string::npos) << name;
  }
}

TEST(Fp8LayersTest, AModelWithoutALayerThatFitsIsRefused) {
  nlohmann::json config = ConfigOf("gpt2");
  config["n_embd"] = 60;
  ModelOptions options;
  options.fp8 = true;
  const absl::Status status = ModelRegistry::Create(config, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("none of the model's 8 linear layers"), std::string::npos)
      << status;
}

TEST(Fp8LayersTest, ATrainerThatComputesInFp32RefusesThem) {
  if (!DeviceRegistry::Create(TestDevice(), DeviceOptions()).ok()) GTEST_SKIP() << "no device";
  const absl::Status status = RunLocalRanks(1, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create(TestDevice(), DeviceOptions()));
    device->BindThread();
    return Trainer::Create(world, *device, Build(ConfigOf("gpt2")), TrainerOptions()).status();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("computed in fp32, expected bf16 or fp16"), std::string::npos)
      << status;
}

}  // namespace
}  // namespace zeroth
