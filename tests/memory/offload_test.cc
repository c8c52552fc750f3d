// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Models whose training state exceeds their memory, and models that are created without ever being
// gathered.

#include "zeroth/strategies/offload.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/options.h"
#include "zeroth/train/model_source.h"

namespace zeroth {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Many blocks, each small compared with the model.
nlohmann::json DeepConfig() {
  nlohmann::json config = *PresetConfig("gpt2_nano");
  config["n_layer"] = 48;
  return config;
}

int64_t CountParameters(const nlohmann::json& config) {
  int64_t numel = 0;
  const auto model = ModelRegistry::Create(config);
  for (const Parameter* parameter : (*model)->Parameters()) {
    numel += parameter->numel();
  }
  return numel;
}

OffloadOptions OffloadOf(int subset) {
  OffloadOptions options;
  options.parameters = (subset & 1) != 0;
  options.gradients = (subset & 2) != 0;
  options.optimizer = (subset & 4) != 0;
  return options;
}
constexpr int kAll = 7;

struct Job {
  nlohmann::json config;
  TrainerOptions trainer;
  int world_size = 1;
  int64_t memory_limit = 0;
  int steps = 3;
};

// Losses, then norms, of rank 0, and the highest peak of any rank.
struct Outcome {
  std::vector<float> losses;
  std::vector<double> norms;
  int64_t peak_bytes = 0;
};

absl::Status TrainRank(const Job& job, Communicator& world, Outcome& outcome) {
  DeviceOptions device_options;
  device_options.memory_limit = job.memory_limit;
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", device_options));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(job.config));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), job.trainer));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(11));
  for (int step = 0; step < job.steps; ++step) {
    Batch batch;
    batch.batch = 1;
    batch.seq = 4;
    for (int32_t i = 0; i < 4; ++i) {
      batch.inputs.push_back(7 * step + i + world.rank());
      batch.targets.push_back(7 * step + i + 1);
    }
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(batch, 1e-2));
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.grad_norm);
  }
  outcome.peak_bytes = device->allocator().stats().total.peak_bytes;
  return absl::OkStatus();
}

absl::Status Train(const Job& job, Outcome& outcome) {
  std::mutex mutex;
  return RunLocalRanks(job.world_size, [&](Communicator& world) -> absl::Status {
    Outcome mine;
    ZEROTH_RETURN_IF_ERROR(TrainRank(job, world, mine));
    std::lock_guard<std::mutex> lock(mutex);
    const int64_t peak_bytes = std::max(outcome.peak_bytes, mine.peak_bytes);
    if (world.rank() == 0) outcome = std::move(mine);
    outcome.peak_bytes = peak_bytes;
    return absl::OkStatus();
  });
}

TEST(OffloadTest, TrainsWhatDoesNotFitAndWithoutItSaysByHowMuchItDoesNot) {
  for (const int world_size : {1, 2}) {
    Job job;
    job.config = DeepConfig();
    job.world_size = world_size;
    const int64_t state_bytes = 16 * CountParameters(job.config) / world_size;
    ASSERT_GT(state_bytes, 73 * kMiB);
    Outcome unlimited;
    ASSERT_EQ(Train(job, unlimited), absl::OkStatus());
    ASSERT_GT(unlimited.peak_bytes, state_bytes);

    job.memory_limit = 16 * kMiB;
    Outcome refused;
    const absl::Status status = Train(job, refused);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(absl::StrContains(status.message(), "bytes above the memory limit of 16777216"))
        << status;

    job.trainer.sharding.offload = OffloadOf(kAll);
    Outcome offloaded;
    ASSERT_EQ(Train(job, offloaded), absl::OkStatus());
    EXPECT_LE(offloaded.peak_bytes, job.memory_limit);
    EXPECT_EQ(offloaded.losses, unlimited.losses);
    EXPECT_EQ(offloaded.norms, unlimited.norms);
  }
}

TEST(OffloadTest, ModelsTrainToTheSameBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const char* strategy :
         {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
      Job job;
      job.config = *PresetConfig("gpt2_nano");
      job.world_size = 2;
      job.trainer.sharding.strategy = strategy;
      job.trainer.sharding.strategy_options.shard_size =
          job.trainer.sharding.strategy == "hybrid_shard" ? 1 : 0;
      job.trainer.sharding.mixed_precision = {dtype, dtype};
      Outcome in_memory;
      ASSERT_EQ(Train(job, in_memory), absl::OkStatus());
      for (const int subset : {1, 2, 4, kAll}) {
        SCOPED_TRACE(absl::StrCat(strategy, " ", DTypeName(dtype), ", subset ", subset));
        job.trainer.sharding.offload = OffloadOf(subset);
        job.trainer.sharding.offload.chunk_numel = 10000;
        Outcome offloaded;
        ASSERT_EQ(Train(job, offloaded), absl::OkStatus());
        EXPECT_EQ(offloaded.losses, in_memory.losses);
        EXPECT_EQ(offloaded.norms, in_memory.norms);
      }
    }
  }
}

float WeightOf(const std::string& name, int64_t element) {
  return static_cast<float>((static_cast<int64_t>(name.size()) * 31 + element) % 1021) / 64.0f;
}

// A Hugging Face directory with the weights above.
std::string WriteModel(const TemporaryDirectory& directory, const nlohmann::json& config) {
  const std::unique_ptr<LanguageModel> model = *ModelRegistry::Create(config);
  std::vector<TensorDeclaration> tensors;
  for (const Parameter* parameter : model->Parameters()) {
    TensorDeclaration tensor;
    tensor.name = parameter->name();
    tensor.shape = parameter->shape();
    tensors.push_back(std::move(tensor));
  }
  const HfConfig hf_config = *HfConfig::Parse(model->HfConfig().dump(), "the model");
  const std::string path = directory.File("model");
  const auto writer = *HfDirectoryWriter::Create(path, hf_config, std::move(tensors));
  for (const Parameter* parameter : model->Parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter->numel()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = WeightOf(parameter->name(), static_cast<int64_t>(i));
    }
    EXPECT_EQ(writer->Write(parameter->name(), 0, values), absl::OkStatus());
  }
  EXPECT_EQ(writer->Finish(), absl::OkStatus());
  return path;
}

absl::Status CheckWeights(const Sharding& sharding) {
  return sharding.VisitShards([](const Parameter& parameter, int64_t begin,
                                 absl::Span<const float> values) -> absl::Status {
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected = WeightOf(parameter.name(), begin + static_cast<int64_t>(i));
      if (values[i] != expected) return absl::InternalError(parameter.name());
    }
    return absl::OkStatus();
  });
}

// Exactly the parameters, gradients and moments of one rank, from the first byte on.
TEST(OffloadTest, AModelIsMadeWithoutEverBeingWhole) {
  constexpr int kRanks = 4;
  const TemporaryDirectory directory;
  TrainOptions options;
  options.init_from = WriteModel(directory, DeepConfig());
  const absl::StatusOr<ModelSource> source = ModelSource::Open(options);
  ASSERT_EQ(source.status(), absl::OkStatus());
  const int64_t numel = CountParameters(DeepConfig());
  for (const int subset : {0, 4, kAll}) {
    SCOPED_TRACE(absl::StrCat("subset ", subset));
    const absl::Status status = RunLocalRanks(kRanks, [&](Communicator& world) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                              DeviceRegistry::Create("cpu", DeviceOptions()));
      ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, source->Build());
      for (const Parameter* parameter : model->Parameters()) {
        EXPECT_FALSE(parameter->data().defined()) << parameter->name();
      }
      TrainerOptions trainer_options;
      trainer_options.sharding.offload = OffloadOf(subset);
      ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                              Trainer::Create(world, *device, std::move(model), trainer_options));
      ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(source->Reader(1)));
      const MemoryStats stats = device->allocator().stats();
      const int64_t bytes_per_parameter = (trainer_options.sharding.offload.parameters ? 0 : 4) +
                                          (trainer_options.sharding.offload.optimizer ? 0 : 8);
      // Room for alignment, and for a piece of a parameter on its way to a store.
      EXPECT_LE(stats.total.peak_bytes,
                bytes_per_parameter * numel / kRanks * 101 / 100 + kMiB / 2);
      EXPECT_EQ(stats[MemoryCategory::kGatheredParameters].peak_bytes, 0);
      EXPECT_EQ(stats[MemoryCategory::kGradients].peak_bytes, 0);
      return CheckWeights(trainer->sharding());
    });
    EXPECT_EQ(status, absl::OkStatus());
  }
}

// Each element is asked for by one rank, in pieces of bounded size.
TEST(OffloadTest, RanksReadTheirOwnRangesOnly) {
  constexpr int kRanks = 3;
  std::mutex mutex;
  int64_t asked = 0;
  const absl::Status status = RunLocalRanks(kRanks, [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                            ModelRegistry::Create(DeepConfig()));
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                            Trainer::Create(world, *device, std::move(model), TrainerOptions()));
    int64_t mine = 0;
    ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(
        [&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
          EXPECT_GE(begin, 0);
          EXPECT_LE(begin + static_cast<int64_t>(out.size()), parameter.numel());
          mine += static_cast<int64_t>(out.size());
          return absl::OkStatus();
        }));
    EXPECT_EQ(mine, trainer->sharding().stats().local_numel);
    std::lock_guard<std::mutex> lock(mutex);
    asked += mine;
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(asked, CountParameters(DeepConfig()));
}

}  // namespace
}  // namespace zeroth
