// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The memory that activation checkpointing saves, as the allocator counts it, and the work that it
// recomputes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {
namespace {

constexpr int64_t kBatch = 2;
constexpr int64_t kSeq = 64;

class CountsMatmuls : public CallWatch {
 public:
  absl::Status AfterCall(const char* operation, absl::Span<const CallField>) override {
    if (absl::string_view(operation) == "Gemm") ++count;
    return absl::OkStatus();
  }
  int64_t count = 0;
};

struct Cost {
  int64_t peak_activations = 0;  // bytes
  int64_t matmuls = 0;
};

// The cost of a step of the preset with `layers` blocks.
Cost CostOf(int layers, ActivationCheckpointing what, const std::string& preset) {
  Cost cost;
  const auto run = [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    device->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig(preset));
    config[config.contains("n_layer") ? "n_layer" : "num_hidden_layers"] = layers;
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
    TrainerOptions options;
    options.activation_checkpointing = what;
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                            Trainer::Create(world, *device, std::move(model), options));
    Batch batch;
    batch.batch = kBatch;
    batch.seq = kSeq;
    batch.inputs.assign(kBatch * kSeq, 7);
    batch.targets.assign(kBatch * kSeq, 9);
    CountsMatmuls matmuls;
    trainer->kernels().set_watch(&matmuls);
    device->allocator().ResetPeaks();
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batch, 1e-4).status());
    trainer->kernels().set_watch(nullptr);
    cost.peak_activations = device->allocator().stats()[MemoryCategory::kActivations].peak_bytes;
    cost.matmuls = matmuls.count;
    return absl::OkStatus();
  };
  const absl::Status status = RunLocalRanks(1, run);
  EXPECT_TRUE(status.ok()) << status;
  return cost;
}

int64_t PeakActivations(int layers, ActivationCheckpointing what,
                        const std::string& preset = "gpt2_nano") {
  return CostOf(layers, what, preset).peak_activations;
}

int64_t InputBytes() {
  const int64_t dim = PresetConfig("gpt2_nano")->at("n_embd").get<int64_t>();
  return kBatch * kSeq * dim * static_cast<int64_t>(sizeof(float));
}

TEST(ActivationCheckpointingMemoryTest, ABlockMoreCostsItsInput) {
  const int64_t few = PeakActivations(3, ActivationCheckpointing::kBlock);
  const int64_t many = PeakActivations(9, ActivationCheckpointing::kBlock);
  EXPECT_EQ(many - few, 6 * InputBytes());
  // Inputs of all blocks, and the activations of one block.
  EXPECT_LE(few, PeakActivations(1, ActivationCheckpointing::kNone) + 3 * InputBytes());
}

TEST(ActivationCheckpointingMemoryTest, HalvesOfBlocksSaveTheirPart) {
  const auto per_block = [](ActivationCheckpointing what) {
    return (PeakActivations(8, what) - PeakActivations(4, what)) / 4;
  };
  const int64_t none = per_block(ActivationCheckpointing::kNone);
  const int64_t attention = per_block(ActivationCheckpointing::kAttention);
  const int64_t mlp = per_block(ActivationCheckpointing::kMlp);
  EXPECT_LT(attention, none);
  EXPECT_LT(mlp, none);
  // The MLP's hidden layer is four times as wide as its input, and its GELU keeps two of them or
  // one.
  EXPECT_GE(none - mlp, 4 * InputBytes());
  // Queries, keys, values and the attention output.
  EXPECT_GE(none - attention, 4 * InputBytes());
}

// Floats per token kept by an additional block.
int64_t Kept(ActivationCheckpointing what, const std::string& preset) {
  const int64_t few = PeakActivations(3, what, preset);
  const int64_t many = PeakActivations(9, what, preset);
  return (many - few) / (6 * kBatch * kSeq * static_cast<int64_t>(sizeof(float)));
}

// GPT-2 keeps the first and the third of its four matmuls: queries, keys and values, and the MLP's
// hidden layer before and after its GELU. Attention keeps a statistic of each head besides its
// output.
TEST(ActivationCheckpointingMemoryTest, SelectiveKeepsEverySecondMatmulAndAttention) {
  const nlohmann::json gpt2 = *PresetConfig("gpt2_nano");
  const auto dim = gpt2.at("n_embd").get<int64_t>();
  EXPECT_EQ(Kept(ActivationCheckpointing::kSelective, "gpt2_nano"),
            dim + 3 * dim + dim + gpt2.at("n_head").get<int64_t>() + 2 * 4 * dim);
}

// Llama keeps three of seven: queries, values and the gate. The seventh is added to the block's
// input, and nothing reads it again.
TEST(ActivationCheckpointingMemoryTest, SelectiveCountsPackedMatmuls) {
  const nlohmann::json llama = *PresetConfig("llama_tiny");
  const auto dim = llama.at("hidden_size").get<int64_t>();
  const auto heads = llama.at("num_attention_heads").get<int64_t>();
  const int64_t values = dim / heads * llama.at("num_key_value_heads").get<int64_t>();
  const auto hidden = llama.at("intermediate_size").get<int64_t>();
  EXPECT_EQ(Kept(ActivationCheckpointing::kSelective, "llama_tiny"),
            dim + dim + values + dim + heads + hidden);
  // All but the last, which only the block's result needs: queries, keys and values, the attention
  // projection, the gate and its factor.
  EXPECT_EQ(Kept(ActivationCheckpointing::kElementwise, "llama_tiny"),
            dim + dim + 2 * values + dim + heads + dim + 2 * hidden);
}

// A block has one matmul in forward for each of its weights, and two in backward. Only matmuls that
// backward reads are recomputed; it does not read the last one of a recomputed part.
TEST(ActivationCheckpointingMemoryTest, OutputsThatBackwardDoesNotReadAreNotRecomputed) {
  const auto again = [](ActivationCheckpointing what, const std::string& preset) {
    const auto of_a_block = [&](ActivationCheckpointing checkpointing) {
      return (CostOf(5, checkpointing, preset).matmuls - CostOf(3, checkpointing, preset).matmuls) /
             2;
    };
    const int64_t once = of_a_block(ActivationCheckpointing::kNone);
    EXPECT_EQ(once, 3 * (preset == "llama_tiny" ? 7 : 4));
    return of_a_block(what) - once;
  };
  EXPECT_EQ(again(ActivationCheckpointing::kBlock, "gpt2_nano"), 3);
  EXPECT_EQ(again(ActivationCheckpointing::kBlock, "llama_tiny"), 6);
  // Attention's output; keys, attention's output and the MLP's other half.
  EXPECT_EQ(again(ActivationCheckpointing::kSelective, "gpt2_nano"), 1);
  EXPECT_EQ(again(ActivationCheckpointing::kSelective, "llama_tiny"), 3);
  EXPECT_EQ(again(ActivationCheckpointing::kAttention, "gpt2_nano"), 1);
  EXPECT_EQ(again(ActivationCheckpointing::kAttention, "llama_tiny"), 3);
  EXPECT_EQ(again(ActivationCheckpointing::kMlp, "gpt2_nano"), 1);
  EXPECT_EQ(again(ActivationCheckpointing::kMlp, "llama_tiny"), 2);
  EXPECT_EQ(again(ActivationCheckpointing::kElementwise, "gpt2_nano"), 0);
  EXPECT_EQ(again(ActivationCheckpointing::kElementwise, "llama_tiny"), 0);
}

struct Sharded {
  std::vector<float> losses;
  int64_t gathers = 0;  // of the last step
  int64_t peak_gathered = 0;
};

// Trains a small model on two ranks. The experts are a unit inside each block.
Sharded StepsOfExperts(ActivationCheckpointing what) {
  Sharded result;
  const auto run = [&](Communicator& world) -> absl::Status {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                            DeviceRegistry::Create("cpu", DeviceOptions()));
    device->BindThread();
    ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig("qwen3_30b_a3b"));
    const std::pair<const char*, int> sizes[] = {
        {"vocab_size", 512},        {"hidden_size", 64},           {"num_hidden_layers", 3},
        {"num_attention_heads", 4}, {"num_key_value_heads", 2},    {"head_dim", 16},
        {"intermediate_size", 128}, {"moe_intermediate_size", 32}, {"num_experts", 8},
        {"num_experts_per_tok", 2}};
    for (const auto& [key, size] : sizes) config[key] = size;
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
    TrainerOptions options;
    options.activation_checkpointing = what;
    options.sharding.strategy = "full_shard";
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                            Trainer::Create(world, *device, std::move(model), options));
    Batch batch;
    batch.batch = kBatch;
    batch.seq = kSeq;
    batch.inputs.assign(kBatch * kSeq, 7);
    batch.targets.assign(kBatch * kSeq, 9);
    for (int step = 0; step < 3; ++step) {
      const auto gathers = [&] {
        const ShardingStats stats = trainer->sharding().stats();
        return stats.collectives[static_cast<size_t>(CollectiveOp::kAllGather)].calls;
      };
      const int64_t before = gathers();
      ZEROTH_ASSIGN_OR_RETURN(const StepResult stepped, trainer->Step(batch, 1e-3));
      if (world.rank() != 0) continue;
      result.losses.push_back(stepped.loss);
      result.gathers = gathers() - before;
    }
    if (world.rank() == 0) {
      result.peak_gathered =
          device->allocator().stats()[MemoryCategory::kGatheredParameters].peak_bytes;
    }
    return absl::OkStatus();
  };
  const absl::Status status = RunLocalRanks(2, run);
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

// A unit inside a recomputed block stays gathered from its second forward to its backward.
TEST(ActivationCheckpointingMemoryTest, RecomputingGathersNoUnitMoreOften) {
  const Sharded none = StepsOfExperts(ActivationCheckpointing::kNone);
  const Sharded block = StepsOfExperts(ActivationCheckpointing::kBlock);
  EXPECT_EQ(block.losses, none.losses);
  EXPECT_EQ(block.gathers, none.gathers);
  EXPECT_LE(block.peak_gathered, none.peak_gathered);
}

}  // namespace
}  // namespace zeroth
