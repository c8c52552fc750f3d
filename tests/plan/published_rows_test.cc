// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares plans with published tables: times and memory of runs on other machines. Since the
// software is not ours, one row of each group gives one efficiency for all rates of the GPU and, if
// the network is not stated, another row gives its bandwidth. All other rows are predicted, and so
// is all memory. docs/published_runs.md has the tables that this prints, and rows of systems of
// earlier years, which --like no longer plans.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/nn/language_model.h"
#include "zeroth/plan/machine_file.h"
#include "zeroth/plan/plan.h"

namespace zeroth {
namespace {

// MosaicML's MPT: a GPT-2 with another vocabulary.
nlohmann::json Mpt(int64_t width, int64_t layers, int64_t heads) {
  return {{"model_type", "gpt2"}, {"vocab_size", 50368}, {"n_positions", 2048},
          {"n_embd", width},      {"n_layer", layers},   {"n_head", heads}};
}

nlohmann::json Llama(int64_t width, int64_t layers, int64_t heads, int64_t inner, int64_t vocab) {
  return {{"model_type", "llama"},        {"vocab_size", vocab},
          {"hidden_size", width},         {"num_hidden_layers", layers},
          {"num_attention_heads", heads}, {"num_key_value_heads", heads},
          {"intermediate_size", inner},   {"max_position_embeddings", 8192},
          {"rms_norm_eps", 1e-5},         {"rope_theta", 10000.0},
          {"tie_word_embeddings", false}, {"hidden_act", "silu"}};
}

struct Row {
  std::string name;
  nlohmann::json model;
  int gpus;
  int64_t seq;
  int64_t batch;
  int64_t accumulation;
  double step_seconds;                                                // that were measured
  std::function<void(TrainOptions&)> options = [](TrainOptions&) {};  // in addition to the group's
};

// Rows that differ only in their numbers.
struct Group {
  std::string machine;
  std::function<void(TrainOptions&)> options;
  std::vector<Row> rows;
  size_t fitted;  // which gives the efficiency
  double bar;     // of the others' error
  int devices_per_node = 8;
  int fits_network = -1;     // the row that gives the bandwidth, or -1: the machine's own
  double node_gigabits = 0;  // per second, of a node's network cards; 0: the machine's
};

double TokensAt(const Row& row, double per_second) {
  return static_cast<double>(row.seq * row.batch * row.accumulation) / per_second;
}

Plan PlanOf(const Group& group, const Row& row, const Machine& machine) {
  TrainOptions options;
  options.world_size = row.gpus;
  options.seq_len = row.seq;
  options.batch_size = row.batch;
  options.grad_accum = row.accumulation;
  options.param_dtype = DType::kBFloat16;
  options.comm = "nccl";
  options.reduction = Reduction::kNccl;
  options.nccl_copy_engine = NcclCopyEngine::kOff;
  group.options(options);
  row.options(options);
  ModelOptions model_options;
  model_options.fp8 = options.fp8 == Fp8Recipe::kTensorwise;
  absl::StatusOr<std::unique_ptr<LanguageModel>> model =
      ModelRegistry::Create(row.model, model_options);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const absl::StatusOr<Plan> plan = PlanRun(options, machine, *std::move(model));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(Plan());
}

Machine Scaled(Machine machine, double efficiency) {
  for (double* const rate : {&machine.fp32_flops, &machine.tf32_flops, &machine.bf16_flops,
                             &machine.fp8_flops, &machine.memory_bandwidth}) {
    *rate *= efficiency;
  }
  machine.launch_seconds /= efficiency;
  return machine;
}

// The factor at which a time that falls with it is `seconds`.
double Solve(double seconds, const std::function<double(double)>& time_at) {
  double low = 0.02;
  double high = 2;
  for (int i = 0; i < 16; ++i) {
    const double middle = std::sqrt(low * high);
    (time_at(middle) > seconds ? low : high) = middle;
  }
  return std::sqrt(low * high);
}

void Check(const Group& group) {
  absl::StatusOr<Machine> machine = OpenMachine(group.machine);
  ASSERT_TRUE(machine.ok()) << machine.status();
  machine->devices_per_node = group.devices_per_node;
  if (group.node_gigabits > 0) {
    // A card reaches the same part of its rate as in the presets: 24 of 25 GB/s.
    constexpr double kBytesOfGigabit = 1e9 / 8;
    machine->network_bandwidth =
        0.96 * group.node_gigabits * kBytesOfGigabit / group.devices_per_node;
  }
  const Row& first = group.rows[group.fitted];
  const double own = machine->network_bandwidth;
  double efficiency = 1;
  // Each fit changes the other slightly, since compute that overlaps collectives is slower.
  const int rounds = group.fits_network >= 0 ? 4 : 1;
  for (int round = 0; round < rounds; ++round) {
    efficiency = Solve(first.step_seconds, [&](double factor) {
      return PlanOf(group, first, Scaled(*machine, factor)).step_seconds;
    });
    if (group.fits_network < 0) break;
    const Row& row = group.rows[static_cast<size_t>(group.fits_network)];
    machine->network_bandwidth = own * Solve(row.step_seconds, [&](double factor) {
                                   Machine at = Scaled(*machine, efficiency);
                                   at.network_bandwidth = own * factor;
                                   return PlanOf(group, row, at).step_seconds;
                                 });
  }
  // The rates of most machines are the best that was measured, which a whole step comes near. Those
  // of H100 and H200 are what this trainer reached, with its own attention.
  EXPECT_GT(efficiency, 0.5) << first.name;
  EXPECT_LT(efficiency, machine->attention_share < 0.5 ? 1.1 : 1) << first.name;
  const Machine fitted = Scaled(*machine, efficiency);
  for (size_t i = 0; i < group.rows.size(); ++i) {
    const Row& row = group.rows[i];
    const Plan plan = PlanOf(group, row, fitted);
    const double error = plan.step_seconds / row.step_seconds - 1;
    const bool gives = i == group.fitted || static_cast<int>(i) == group.fits_network;
    std::printf("| %s | %d | %lld x %lld x %lld | %.3g | %.3g | %s |\n", row.name.c_str(), row.gpus,
                static_cast<long long>(row.accumulation), static_cast<long long>(row.batch),
                static_cast<long long>(row.seq), row.step_seconds, plan.step_seconds,
                gives ? "fitted" : absl::StrCat(std::lround(1000 * error) / 10.0, " %").c_str());
    EXPECT_LE(std::abs(error), group.bar) << row.name << " on " << row.gpus;
    EXPECT_TRUE(plan.fits) << row.name << ": it ran";
  }
  std::printf("efficiency %.3f, network %.3g GB/s a GPU\n", efficiency,
              fitted.network_bandwidth / 1e9);
}

// MosaicML's llm-foundry, "benchmarking": tokens per second and GPU, as seconds per step.
Row MptRow(const std::string& name, const nlohmann::json& model, int gpus, int64_t batch,
           int64_t accumulation, double tokens_per_second) {
  Row row = {name, model, gpus, 2048, batch, accumulation, 0};
  row.step_seconds = TokensAt(row, tokens_per_second);
  return row;
}

TEST(PublishedRowsTest, MptOnA100WithCheckpointing) {
  Check({"A100-40",
         [](TrainOptions& o) {
           o.reduce_dtype = DType::kBFloat16;
           o.activation_checkpointing = ActivationCheckpointing::kBlock;
         },
         {MptRow("mpt-7b", Mpt(4096, 32, 32), 8, 12, 4, 3679),
          MptRow("mpt-7b", Mpt(4096, 32, 32), 16, 16, 1, 3645),
          MptRow("mpt-7b", Mpt(4096, 32, 32), 32, 18, 1, 3725),
          MptRow("mpt-7b", Mpt(4096, 32, 32), 64, 18, 1, 3665),
          MptRow("mpt-7b", Mpt(4096, 32, 32), 128, 18, 1, 3623),
          MptRow("mpt-13b", Mpt(5120, 40, 40), 128, 16, 1, 1972),
          MptRow("mpt-70b", Mpt(8192, 80, 64), 128, 4, 1, 376)},
         /*fitted=*/0,
         /*bar=*/0.1});
}

TEST(PublishedRowsTest, MptOnA100WithoutCheckpointing) {
  const nlohmann::json model = Mpt(768, 12, 12);
  Check(
      {"A100-40",
       [](TrainOptions& o) { o.reduce_dtype = DType::kBFloat16; },
       {MptRow("mpt-125m", model, 8, 26, 3, 136334), MptRow("mpt-125m", model, 16, 26, 1, 130535),
        MptRow("mpt-125m", model, 32, 26, 1, 127122), MptRow("mpt-125m", model, 64, 26, 1, 125234),
        MptRow("mpt-125m", model, 128, 26, 1, 123936),
        MptRow("mpt-3b", Mpt(2560, 32, 20), 128, 6, 1, 9538)},
       /*fitted=*/0,
       /*bar=*/0.1});
}

TEST(PublishedRowsTest, MptOnH100) {
  const nlohmann::json model = Mpt(4096, 32, 32);
  Check({"H100",
         [](TrainOptions& o) { o.reduce_dtype = DType::kBFloat16; },
         {MptRow("mpt-7b", model, 8, 6, 1, 10643), MptRow("mpt-7b", model, 128, 6, 1, 10475),
          MptRow("mpt-7b", model, 256, 6, 1, 10119), MptRow("mpt-7b", model, 512, 6, 1, 9670)},
         /*fitted=*/0,
         /*bar=*/0.1});
}

// KempnerForge, "mfu_scaling": weights and moments in bf16, gradients accumulated in full.
Group KempnerForge() {
  const nlohmann::json model = *PresetConfig("llama3_8b");
  return {"H200",
          [](TrainOptions& o) {
            o.master_dtype = DType::kBFloat16;
            o.optimizer_state_dtype = DType::kBFloat16;
            o.grad_sync = GradSync::kLast;
            o.activation_checkpointing = ActivationCheckpointing::kBlock;
            o.like = Like::kFsdp2;
          },
          {{"llama3-8b", model, 1, 4096, 2, 4, 3.13},
           {"llama3-8b", model, 2, 4096, 2, 4, 3.50},
           {"llama3-8b", model, 4, 4096, 4, 2, 3.36}},
          /*fitted=*/2,
          /*bar=*/0.1,
          /*devices_per_node=*/4};
}

TEST(PublishedRowsTest, Llama3OnH200) { Check(KempnerForge()); }

void InFp8(TrainOptions& options) { options.fp8 = Fp8Recipe::kTensorwise; }
// torch.compile keeps all matmuls that backward reads (torchtitan's pull request 3060).
void BetweenMatmuls(TrainOptions& options) {
  options.activation_checkpointing = ActivationCheckpointing::kElementwise;
}
void Fully(TrainOptions& options) {
  options.activation_checkpointing = ActivationCheckpointing::kBlock;
}

// torchtitan: Llama 3 on 8 H100, 8192 tokens, selective checkpointing by operation. Tables differ
// in date and software.
Group Torchtitan(const std::vector<Row>& rows) {
  return {"H100",
          [](TrainOptions& o) {
            o.activation_checkpointing = ActivationCheckpointing::kSelective;
            o.like = Like::kFsdp2;
          },
          rows,
          /*fitted=*/0,
          /*bar=*/0.1};
}

Row TorchtitanRow(const std::string& name, int64_t batch, double tokens_per_second) {
  Row row = {name, *PresetConfig("llama3_8b"), 8, 8192, batch, 1, 0};
  row.step_seconds = TokensAt(row, tokens_per_second);
  return row;
}

Row With(Row row, std::function<void(TrainOptions&)> options) {
  row.options = std::move(options);
  return row;
}

// torchao's page on training, and torchtitan's benchmark of two sequences, which is of another
// date.
TEST(PublishedRowsTest, Llama3OnH100Compiled) {
  Check(Torchtitan({TorchtitanRow("llama3-8b, compiled", 1, 6150),
                    With(TorchtitanRow("llama3-8b, compiled, fp8", 1, 7690), InFp8),
                    TorchtitanRow("llama3-8b, compiled", 2, 6667)}));
}

// Pull request 808.
TEST(PublishedRowsTest, Llama3OnH100InFp8) {
  Check(Torchtitan({TorchtitanRow("llama3-8b, compiled", 1, 5760),
                    With(TorchtitanRow("llama3-8b, compiled, fp8", 1, 7186), InFp8)}));
}

// Pull request 3429.
TEST(PublishedRowsTest, Llama3OnH100RecomputedInFull) {
  Check(Torchtitan({With(TorchtitanRow("llama3-8b, elementwise", 1, 7890), BetweenMatmuls),
                    With(TorchtitanRow("llama3-8b, blocks", 1, 7006), Fully)}));
}

struct MemoryRow {
  Row row;
  double gib;
};

// `is_reserved`: memory reserved by the allocator, not allocated from it.
void CheckMemory(const Group& group, bool is_reserved, const std::vector<MemoryRow>& rows) {
  absl::StatusOr<Machine> machine = OpenMachine(group.machine);
  ASSERT_TRUE(machine.ok()) << machine.status();
  for (const auto& [row, measured] : rows) {
    constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
    const Plan plan = PlanOf(group, row, *machine);
    const int64_t bytes = is_reserved ? plan.memory_reserved_bytes : plan.memory_peak_bytes;
    const double planned = static_cast<double>(bytes) / kGiB;
    const double bar = is_reserved ? 0.03 * measured + 1.5 : 0.01 * measured;
    std::printf("| %s, %s | %d | %lld x %lld | %.4g | %.4g | %.1f %% | %s\n", row.name.c_str(),
                is_reserved ? "reserved" : "allocated", row.gpus, static_cast<long long>(row.batch),
                static_cast<long long>(row.seq), measured, planned, 100 * (planned / measured - 1),
                plan.moment.c_str());
    EXPECT_NEAR(planned, measured, bar) << row.name << " on " << row.gpus;
  }
}

TEST(PublishedMemoryTest, Llama3OnH200) {
  const Group group = KempnerForge();
  CheckMemory(group, /*is_reserved=*/false,
              {{group.rows[0], 80.7}, {group.rows[1], 62.4}, {group.rows[2], 61.1}});
}

TEST(PublishedMemoryTest, Llama3OnH100) {
  const Row one = TorchtitanRow("llama3-8b", 1, 7031);
  CheckMemory(Torchtitan({}), /*is_reserved=*/true,
              {{With(one, BetweenMatmuls), 52.44}, {With(one, Fully), 32.07}});
}

// InternEvo, "performance": ZeRO-1 over all ranks, nodes with four cards of 100 Gb/s.
TEST(PublishedRowsTest, InternLmOnA100) {
  const nlohmann::json model = Llama(4096, 32, 32, 11008, 103168);
  const auto row = [&](int gpus, double tokens_per_second) {
    Row made = {"internlm-7b", model, gpus, 2048, 2, 4, 0};
    made.step_seconds = TokensAt(made, tokens_per_second);
    return made;
  };
  Check({"A100-80",
         [](TrainOptions& o) {
           o.strategy = "shard_optimizer";
           o.grad_sync = GradSync::kLast;
           o.reduce_dtype = DType::kBFloat16;
         },
         {row(8, 4062), row(16, 3842), row(32, 3752), row(64, 3690), row(128, 3571)},
         /*fitted=*/0,
         /*bar=*/0.15,
         /*devices_per_node=*/8,
         /*fits_network=*/2});
}

// InternEvo's table says that state sharded over 8 GPUs makes steps on 1,024 GPUs 1.60 times as
// fast as state sharded over all.
TEST(PublishedRowsTest, OnManyGpusSmallGroupsAreFaster) {
  const nlohmann::json model = Llama(4096, 32, 32, 11008, 103168);
  const absl::StatusOr<Machine> machine = OpenMachine("A100-80");
  ASSERT_TRUE(machine.ok()) << machine.status();
  const auto seconds = [&](const std::string& strategy, int shard_size) {
    const Group group = {"A100-80",
                         [&](TrainOptions& o) {
                           o.strategy = strategy;
                           o.shard_size = shard_size;
                           o.grad_sync = GradSync::kLast;
                           o.reduce_dtype = DType::kBFloat16;
                         },
                         {},
                         /*fitted=*/0,
                         /*bar=*/0};
    return PlanOf(group, {"internlm-7b", model, 1024, 2048, 2, 4, 0}, *machine).step_seconds;
  };
  const double groups = seconds("shard_optimizer", 8);
  const double over_all = seconds("shard_optimizer", 0);
  std::printf("over all %.3g s, in groups of 8 %.3g s: %.2f times\n", over_all, groups,
              over_all / groups);
  EXPECT_LT(groups, over_all);
  EXPECT_LT(groups, seconds("full_shard", 0));
}

// IBM's fms-fsdp: one row for each of two clusters. Each gives an efficiency, which must be one
// that others have as well; that the run fits is predicted.
TEST(PublishedRowsTest, Llama2OnTwoNetworks) {
  const auto check = [](const std::string& machine, int gpus, double gigabits, double rate) {
    Row row = {"llama2-13b, selective", Llama(5120, 40, 40, 13824, 32000), gpus, 4096, 2, 1, 0};
    row.step_seconds = TokensAt(row, rate);
    Check({machine,
           [](TrainOptions& o) {
             o.reduce_dtype = DType::kBFloat16;
             o.activation_checkpointing = ActivationCheckpointing::kSelective;
             o.like = Like::kFsdp2;
           },
           {row},
           /*fitted=*/0,
           /*bar=*/0.1,
           /*devices_per_node=*/8,
           /*fits_network=*/-1,
           gigabits});
  };
  check("A100-80", 128, 400, 2150);
  check("H100", 96, 800, 4850);
}

// YaFSDP's README: FSDP over a network that is not stated, and which decides all but the longest
// sequences. Gradients are reduced in fp32.
TEST(PublishedRowsTest, Llama2OnA100) {
  const nlohmann::json small = Llama(4096, 32, 32, 11008, 32000);
  const nlohmann::json large = Llama(5120, 40, 40, 13824, 32000);
  Check({"A100-80",
         [](TrainOptions&) {},
         {{"llama2-7b", small, 64, 2048, 1, 1, 0.90},
          {"llama2-7b", small, 64, 4096, 1, 1, 1.21},
          {"llama2-7b", small, 64, 8192, 1, 1, 2.29},
          {"llama2-13b", large, 128, 2048, 1, 1, 1.76},
          {"llama2-13b", large, 128, 4096, 1, 1, 2.14}},
         /*fitted=*/2,
         /*bar=*/0.15,
         /*devices_per_node=*/8,
         /*fits_network=*/0});
}

}  // namespace
}  // namespace zeroth
