// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares the operations that a plan counts with those of real steps, with the model's own count
// of FLOPs, and with fixed numbers for a layer.

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/plan/machine_file.h"
#include "zeroth/plan/plan.h"

namespace zeroth {
namespace {

absl::StatusOr<std::unique_ptr<LanguageModel>> Build(const TrainOptions& options,
                                                     int64_t layers = 0) {
  ZEROTH_ASSIGN_OR_RETURN(nlohmann::json config, PresetConfig(options.model));
  if (layers > 0) config[config.contains("n_layer") ? "n_layer" : "num_hidden_layers"] = layers;
  ModelOptions model;
  model.lora = options.lora();
  return ModelRegistry::Create(config, model);
}

Plan PlanOf(const TrainOptions& options, const Machine& machine, int64_t layers = 0) {
  absl::StatusOr<std::unique_ptr<LanguageModel>> model = Build(options, layers);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const absl::StatusOr<Plan> plan = PlanRun(options, machine, *std::move(model));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(Plan());
}

using Counts = std::map<std::string, int64_t>;

// Its rates do not matter where only calls are counted.
Machine Cpu() {
  Machine machine;
  machine.is_gpu = false;
  machine.fp32_flops = machine.bf16_flops = 1e11;
  machine.memory_bandwidth = machine.link_bandwidth = 1e10;
  machine.network_bandwidth = machine.host_bandwidth = 1e9;
  machine.memory_bytes = 1e12;
  return machine;
}

class CallCounter : public CallWatch {
 public:
  explicit CallCounter(Counts& counts) : counts_(counts) {}
  absl::Status AfterCall(const char* operation, absl::Span<const CallField>) override {
    ++counts_[operation];
    return absl::OkStatus();
  }

 private:
  Counts& counts_;
};

// Counts the operations of rank 0 in the third step of a real run.
absl::Status CountCalls(const TrainOptions& options, Communicator& world, Counts& counts) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, Build(options));
  ZEROTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<Trainer> trainer,
      Trainer::Create(world, *device, std::move(model), TrainerOptionsFor(options, nullptr)));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Initialize(1));
  Batch batch;
  batch.batch = options.batch_size;
  batch.seq = options.seq_len;
  batch.inputs.assign(static_cast<size_t>(batch.batch * batch.seq), 3);
  batch.targets.assign(batch.inputs.size(), 4);
  const std::vector<Batch> batches(static_cast<size_t>(options.grad_accum), batch);
  CallCounter counter(counts);
  for (int step = 0; step < 3; ++step) {
    if (step == 2 && world.rank() == 0) trainer->kernels().set_watch(&counter);
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batches, 1e-4).status());
  }
  trainer->kernels().set_watch(nullptr);
  return absl::OkStatus();
}

TEST(PlanOperationsTest, CallsAreTheRunsOwn) {
  for (const char* const preset : {"gpt2_nano", "llama_tiny"}) {
    for (const char* const strategy : {"no_shard", "full_shard"}) {
      // If there are six micro-batches, four are planned and two extrapolated.
      for (const int64_t micro_batches : {1, 6}) {
        TrainOptions options;
        options.data = "none";
        options.model = preset;
        options.strategy = strategy;
        options.comm = "local";
        options.world_size = 2;
        options.threads_per_rank = 1;
        options.batch_size = 2;
        options.seq_len = 32;
        options.grad_accum = micro_batches;
        Counts expected;
        ASSERT_EQ(RunLocalRanks(
                      2, [&](Communicator& world) { return CountCalls(options, world, expected); }),
                  absl::OkStatus());
        Counts counts;
        for (const auto& [name, cost] : PlanOf(options, Cpu()).operations) {
          counts[name] = cost.calls;
        }
        EXPECT_EQ(counts, expected) << preset << ", " << strategy << ", " << micro_batches;
      }
    }
  }
}

TrainOptions OnGpu(const std::string& preset, int64_t batch, int64_t seq) {
  TrainOptions options;
  options.data = "none";
  options.model = preset;
  options.strategy = "full_shard";
  options.comm = "nccl";
  options.world_size = 8;
  options.param_dtype = DType::kBFloat16;
  options.batch_size = batch;
  options.seq_len = seq;
  return options;
}

Machine Gpu() {
  const absl::StatusOr<Machine> machine = OpenMachine("H100");
  EXPECT_TRUE(machine.ok()) << machine.status();
  return machine.value_or(Machine());
}

// Both counts include matmuls and attention, and only half of attention's scores, since it is
// causal. The operations also recompute the scores in attention's backward: 5 matmuls instead of 4.
TEST(PlanOperationsTest, FlopsAreTheModels) {
  const TrainOptions options = OnGpu("llama_1b", 4, 1024);
  const Plan plan = PlanOf(options, Gpu());
  double flops = 0;
  for (const auto& [name, cost] : plan.operations) flops += cost.flops;
  const double attention = plan.operations.at("Attention").flops;
  EXPECT_NEAR(plan.operations.at("AttentionBackward").flops / attention, 2.5, 1e-6);
  const double expected =
      (*Build(options))->FlopsPerToken(options.seq_len) * 4 * 1024 + attention / 2;
  EXPECT_NEAR(flops / expected, 1, 1e-3);
}

// Returns what one layer more costs in a step, an operation per line.
std::string LayerText(const TrainOptions& options) {
  Plan more = PlanOf(options, Gpu(), 3);
  const Plan less = PlanOf(options, Gpu(), 2);
  std::string text;
  for (auto& [name, cost] : more.operations) {
    OperationCost without;
    if (const auto found = less.operations.find(name); found != less.operations.end()) {
      without = found->second;
    }
    if (cost.calls == without.calls && cost.bytes == without.bytes) continue;
    absl::StrAppendFormat(&text, "%-17s %2d calls %2d launches %8.1f MB %7.1f GFLOP\n", name,
                          cost.calls - without.calls, cost.launches - without.launches,
                          1e-6 * (cost.bytes - without.bytes), 1e-9 * (cost.flops - without.flops));
  }
  return text;
}

// A change that fuses operations, or lets one read less, shows here.
TEST(PlanOperationsTest, ALayerHasTheseOperations) {
  EXPECT_EQ(LayerText(OnGpu("gpt2_124m", 64, 1024)),
            "AdamW              0 calls  0 launches     14.2 MB     0.0 GFLOP\n"
            "Add                1 calls  1 launches    302.0 MB     0.0 GFLOP\n"
            "AddSquares         0 calls  0 launches      3.5 MB     0.0 GFLOP\n"
            "Attention          1 calls  1 launches    405.8 MB   103.1 GFLOP\n"
            "AttentionBackward  1 calls  2 launches    808.5 MB   257.7 GFLOP\n"
            "BiasGradient       4 calls  4 launches    906.0 MB     0.0 GFLOP\n"
            "Gemm              12 calls 12 launches   5693.8 MB  2783.1 GFLOP\n"
            "LayerNorm          2 calls  2 launches    605.0 MB     0.0 GFLOP\n"
            "LayerNormBackward  2 calls  2 launches    605.0 MB     0.0 GFLOP\n");
  EXPECT_EQ(LayerText(OnGpu("llama_1b", 16, 2048)),
            "AdamW              0 calls  0 launches     88.1 MB     0.0 GFLOP\n"
            "Add                1 calls  1 launches    402.7 MB     0.0 GFLOP\n"
            "AddSquares         0 calls  0 launches     22.0 MB     0.0 GFLOP\n"
            "Attention          1 calls  1 launches    306.2 MB   274.9 GFLOP\n"
            "AttentionBackward  1 calls  2 launches    608.2 MB   687.2 GFLOP\n"
            "Gemm              21 calls 21 launches   7801.4 MB  8658.7 GFLOP\n"
            "RmsNorm            2 calls  2 launches    805.6 MB     0.0 GFLOP\n"
            "RmsNormBackward    2 calls  2 launches    805.6 MB     0.0 GFLOP\n"
            "Rope               2 calls  2 launches    604.0 MB     0.0 GFLOP\n"
            "SwiGlu             1 calls  1 launches   1107.3 MB     0.0 GFLOP\n"
            "SwiGluBackward     1 calls  1 launches   1845.5 MB     0.0 GFLOP\n");
}

// Returns the line of one operation in LayerText.
std::string LayerLine(const TrainOptions& options, absl::string_view operation) {
  const std::string text = LayerText(options);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, absl::StrCat(operation, " "))) return std::string(line);
  }
  return "";
}

// The shape has 32768 tokens with 8 of 128 experts each. When each expert's warp walked over all
// pairs twice, routing had 4 launches, and read 268 MB in addition to its tensors. The sort and its
// readers access 7 MB.
TEST(PlanOperationsTest, RoutingSortsItsPairs) {
  EXPECT_EQ(LayerLine(OnGpu("qwen3_30b_a3b", 16, 2048), "Route"),
            "Route              1 calls  8 launches     18.9 MB     0.0 GFLOP");
}

// Forward and backward unpack four weights of attention, and 128 experts' three weights of 2048 x
// 768, 10 at a time. With a launch for each expert there were 776.
TEST(PlanOperationsTest, ExpertsInFewBitsAreUnpackedTogether) {
  TrainOptions options = OnGpu("qwen3_30b_a3b", 1, 2048);
  options.lora_rank = 8;
  options.base_dtype = BaseDtype::kNf4;
  EXPECT_EQ(LayerLine(options, "Unpack"),
            "Unpack            86 calls 86 launches   3134.0 MB     0.0 GFLOP");
}

// One layer with the heads of published models and 8192 tokens. Backward writes and reads 17 GB of
// states in addition to its tensors, and launches three kernels for each of 128 chunks of each
// sequence.
TEST(PlanOperationsTest, TheDeltaRuleCountsItsScratch) {
  const nlohmann::json config = {{"model_type", "qwen3_5_text"}, {"vocab_size", 1024},
                                 {"hidden_size", 1024},          {"intermediate_size", 1024},
                                 {"num_hidden_layers", 1},       {"num_attention_heads", 8},
                                 {"num_key_value_heads", 2},     {"full_attention_interval", 2}};
  const auto text_of = [&config](int64_t batch) {
    absl::StatusOr<std::unique_ptr<LanguageModel>> model = ModelRegistry::Create(config);
    EXPECT_TRUE(model.ok()) << model.status();
    const absl::StatusOr<Plan> plan =
        PlanRun(OnGpu("llama_1b", batch, 8192), Gpu(), *std::move(model));
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::string text;
    for (const auto& [name, cost] : plan->operations) {
      if (!absl::StrContains(name, "DeltaRule") && !absl::StrContains(name, "Convolution"))
        continue;
      absl::StrAppendFormat(&text, "%-24s %3d launches %8.1f MB\n", name, cost.launches,
                            1e-6 * cost.bytes);
    }
    return text;
  };
  EXPECT_EQ(text_of(1),
            "GatedDeltaRule             3 launches    481.3 MB\n"
            "GatedDeltaRuleBackward   391 launches  38218.5 MB\n"
            "ShortConvolution           1 launches    268.5 MB\n"
            "ShortConvolutionBackward   3 launches    704.8 MB\n");
  EXPECT_EQ(text_of(3),
            "GatedDeltaRule             3 launches   1443.9 MB\n"
            "GatedDeltaRuleBackward   775 launches 114655.5 MB\n"
            "ShortConvolution           1 launches    805.4 MB\n"
            "ShortConvolutionBackward   3 launches   2047.0 MB\n");
}

// Returns the cost of the loss in a step, an operation per line: what these operations cost outside
// of the layers.
std::string LossText(const TrainOptions& options) {
  const Plan less = PlanOf(options, Gpu(), 2);
  const Plan more = PlanOf(options, Gpu(), 3);
  std::string text;
  for (const char* const name : {"Gemm", "SoftmaxGradient", "SoftmaxStatistics"}) {
    const auto outside = [&](auto OperationCost::*const number) {
      return 3 * (less.operations.at(name).*number) - 2 * (more.operations.at(name).*number);
    };
    absl::StrAppendFormat(&text, "%-17s %3d calls %8.1f GB %7.1f GFLOP\n", name,
                          outside(&OperationCost::calls), 1e-9 * outside(&OperationCost::bytes),
                          1e-9 * outside(&OperationCost::flops));
  }
  return text;
}

// Each chunk of the loss reads and writes this rank's part of the weight's gradient in fp32. With
// a CPU's chunks of 64 MiB of logits there were 64 of them, and their matmuls moved 205 GB.
TEST(PlanOperationsTest, TheLossOfADividedVocabularyHasFewChunks) {
  TrainOptions options = OnGpu("llama3_8b", 1, 8192);
  options.world_size = options.tensor_parallel = 2;
  EXPECT_EQ(LossText(options),
            "Gemm               12 calls     16.0 GB 12910.7 GFLOP\n"
            "SoftmaxGradient     4 calls      3.2 GB     0.0 GFLOP\n"
            "SoftmaxStatistics   4 calls      2.1 GB     0.0 GFLOP\n");
}

// The first of four ranks has 12564 tokens. Its matmuls have 12568 columns: 3 of 2 * 4096 * 12568 *
// 768 operations, 237.2 and not 237.1 GFLOP.
TEST(PlanOperationsTest, TheLossOfADividedVocabularyIsPadded) {
  TrainOptions options = OnGpu("gpt2_124m", 4, 1024);
  options.world_size = options.tensor_parallel = 4;
  EXPECT_EQ(LossText(options),
            "Gemm                3 calls      0.5 GB   237.2 GFLOP\n"
            "SoftmaxGradient     1 calls      0.3 GB     0.0 GFLOP\n"
            "SoftmaxStatistics   1 calls      0.2 GB     0.0 GFLOP\n");
}

}  // namespace
}  // namespace zeroth
