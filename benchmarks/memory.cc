// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Prints a rank's memory under each strategy, precision and option that saves memory ("lever"):
// peak bytes by category, as the allocator counts them in real steps, next to the formula's
// prediction.
//
//   bazel run //benchmarks:memory -- [--device=cuda] [preset] [ranks] [strategy] [lever]
//
// A strategy's name, or a part of a lever's name, selects rows; "all" selects every row. Ranks are
// threads, which share the device. The last column is the memory that a rank's allocator has
// reserved, whether in use or not.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/testing/memory_formula.h"

ABSL_FLAG(std::string, device, "cpu", "The kind of device to train on.");

namespace zeroth {
namespace {

constexpr int64_t kBatch = 1;
constexpr int64_t kSeq = 128;
constexpr double kMiB = 1024.0 * 1024.0;

struct Lever {
  const char* name;
  int64_t micro_batches = 1;
  bool sync_every = true;
  bool reshard_after_forward = true;
  ActivationCheckpointing checkpointing = ActivationCheckpointing::kNone;
  const char* offload = "";  // letters of "pgo": parameters, gradients, optimizer
  DType moment_dtype = DType::kFloat32;
  bool keeps_masters = true;
  bool halves_after_forward = false;  // reshards to groups of half the shard group
  bool optimizer_over_world = false;
  bool sums_in_tree = false;  // sums the micro-batches of a deterministic batch in a tree
};

constexpr Lever kLevers[] = {
    {"plain"},
    {"accumulate, sync every", 2, true},
    {"accumulate, sync last", 2, false},
    {.name = "accumulate in a tree", .micro_batches = 2, .sums_in_tree = true},
    {.name = "the same, 8 a rank", .micro_batches = 8, .sums_in_tree = true},
    {.name = "checkpoint blocks", .checkpointing = ActivationCheckpointing::kBlock},
    {.name = "keep after forward", .reshard_after_forward = false},
    {.name = "reshard to half", .halves_after_forward = true},
    {.name = "optimizer over world", .optimizer_over_world = true},
    {.name = "offload optimizer", .offload = "o"},
    {.name = "offload opt., grads", .offload = "go"},
    {.name = "offload all", .offload = "pgo"},
    {.name = "bf16 moments", .moment_dtype = DType::kBFloat16},
    {.name = "8-bit moments", .moment_dtype = DType::kUInt8},
    {.name = "no masters, bf16 mom.", .moment_dtype = DType::kBFloat16, .keeps_masters = false},
    {.name = "no masters, 8-bit mom.", .moment_dtype = DType::kUInt8, .keeps_masters = false},
};

// The number of the parameter's layer, as in "model.layers.3.mlp.up_proj.weight"; empty if it is in
// none.
std::string LayerOf(absl::string_view parameter) {
  for (const absl::string_view before : {".h.", ".layers."}) {
    const size_t at = parameter.find(before);
    if (at == absl::string_view::npos) continue;
    const absl::string_view rest = parameter.substr(at + before.size());
    return std::string(rest.substr(0, rest.find('.')));
  }
  return "";
}

// Takes the largest block, and the largest unit nested in one, for all. `all_alike` says whether
// they are.
ModelNumel CountNumel(const LanguageModel& model, bool& all_alike) {
  ModelNumel numel;
  using Layer = std::pair<double, double>;  // of the block, and of its nested unit
  std::map<std::string, Layer> layers;
  for (const Parameter* parameter : model.Parameters()) {
    const double count = static_cast<double>(parameter->numel());
    numel.total += count;
    if (parameter->numel() < kMin8bitNumel) numel.small += count;
    const std::string layer = LayerOf(parameter->name());
    if (layer.empty()) {
      numel.root += count;
    } else if (absl::StrContains(parameter->name(), ".experts.")) {
      layers[layer].second += count;
    } else {
      layers[layer].first += count;
    }
  }
  all_alike = true;
  for (const auto& [number, layer] : layers) {
    numel.block = std::max(numel.block, layer.first);
    numel.nested = std::max(numel.nested, layer.second);
    all_alike = all_alike && layer == layers.begin()->second;
  }
  return numel;
}

absl::Status TrainRank(const nlohmann::json& config, const MemoryFormulaOptions& setup,
                       const Lever& lever, Communicator& world, std::mutex& mutex,
                       MemoryStats& largest) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create(absl::GetFlag(FLAGS_device), DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, ModelRegistry::Create(config));
  TrainerOptions options;
  options.sharding.strategy = setup.strategy;
  options.sharding.strategy_options.shard_size = setup.shard_size;
  options.sharding.strategy_options.reshard_after_forward = setup.reshard_after_forward;
  options.sharding.strategy_options.post_forward_shard_size = setup.post_forward_shard_size;
  options.sharding.strategy_options.shard_optimizer_over_world = setup.shard_optimizer_over_world;
  options.sharding.mixed_precision = setup.precision;
  options.sharding.offload = setup.offload;
  options.optimizer_options.state_dtype = setup.moment_dtype;
  options.sync_every_micro_batch = setup.sync_every_micro_batch;
  options.activation_checkpointing = lever.checkpointing;
  if (lever.sums_in_tree) options.deterministic_batch = setup.micro_batches * setup.world_size;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(world, *device, std::move(model), options));
  Batch batch;
  batch.batch = kBatch;
  batch.seq = kSeq;
  batch.inputs.assign(kBatch * kSeq, 11);
  batch.targets.assign(kBatch * kSeq, 17 + world.rank());
  device->allocator().ResetPeaks();
  const std::vector<Batch> batches(static_cast<size_t>(setup.micro_batches), batch);
  // The second step prefetches in the order that the first has recorded.
  for (int step = 0; step < 2; ++step) {
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batches, 1e-4).status());
  }
  const MemoryStats stats = device->allocator().stats();
  std::lock_guard<std::mutex> lock(mutex);
  if (stats.total.peak_bytes > largest.total.peak_bytes) largest = stats;
  return absl::OkStatus();
}

// The share of the machine's memory for training state; activations and other programs get the
// rest.
constexpr double kMachineShare = 0.8;

double MachineBytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Returns the number of ranks that fit this machine's memory. The memory of a rank under no_shard
// does not depend on their number; other strategies run with all ranks or not at all.
absl::StatusOr<int> RanksThatFit(const ModelNumel& numel, const MemoryFormulaOptions& setup) {
  // Other devices report by themselves that they are full.
  if (absl::GetFlag(FLAGS_device) != "cpu") return setup.world_size;
  ZEROTH_ASSIGN_OR_RETURN(const StateBytes formula, PredictStateBytes(numel, setup));
  const int fit = static_cast<int>(kMachineShare * MachineBytes() / formula.total());
  if (fit >= setup.world_size) return setup.world_size;
  if (setup.strategy != "no_shard" || fit < 2) return 0;
  return setup.sums_in_tree ? static_cast<int>(std::bit_floor(static_cast<unsigned>(fit))) : fit;
}

absl::Status PrintTooLarge(const MemoryFormulaOptions& setup, const Lever& lever) {
  std::cout << setup.strategy << ", " << lever.name << ": more than this machine's memory\n";
  return absl::OkStatus();
}

absl::Status PrintRow(const nlohmann::json& config, const ModelNumel& numel,
                      MemoryFormulaOptions setup, const Lever& lever) {
  ZEROTH_ASSIGN_OR_RETURN(setup.world_size, RanksThatFit(numel, setup));
  if (setup.world_size == 0) return PrintTooLarge(setup, lever);
  MemoryStats stats;
  std::mutex mutex;
  const absl::Status trained = RunLocalRanks(setup.world_size, [&](Communicator& world) {
    return TrainRank(config, setup, lever, world, mutex, stats);
  });
  if (absl::IsResourceExhausted(trained)) return PrintTooLarge(setup, lever);
  ZEROTH_RETURN_IF_ERROR(trained);
  ZEROTH_ASSIGN_OR_RETURN(const StateBytes formula, PredictStateBytes(numel, setup));
  const auto peak = [&](MemoryCategory category) {
    return static_cast<double>(stats[category].peak_bytes);
  };
  const double state = peak(MemoryCategory::kParameters) +
                       peak(MemoryCategory::kGatheredParameters) +
                       peak(MemoryCategory::kGradients) + peak(MemoryCategory::kOptimizer) +
                       peak(MemoryCategory::kOffloadStaging);
  std::cout << absl::StreamFormat(
      "%-16s %5d %-10s %-23s %8.1f %8.1f %8.1f %8.1f %8.1f %9.1f %9.1f %6.2f%% %8.1f %8.1f %9.1f "
      "%9.1f\n",
      setup.strategy, setup.world_size,
      absl::StrCat(DTypeName(setup.precision.param_dtype), "/",
                   DTypeName(setup.precision.reduce_dtype)),
      lever.name, peak(MemoryCategory::kParameters) / kMiB,
      peak(MemoryCategory::kGatheredParameters) / kMiB, peak(MemoryCategory::kGradients) / kMiB,
      peak(MemoryCategory::kOptimizer) / kMiB, peak(MemoryCategory::kOffloadStaging) / kMiB,
      state / kMiB, formula.total() / kMiB, 100 * (state / formula.total() - 1),
      peak(MemoryCategory::kActivations) / kMiB,
      (peak(MemoryCategory::kWorkspace) + peak(MemoryCategory::kCommunication)) / kMiB,
      static_cast<double>(stats.total.peak_bytes) / kMiB,
      static_cast<double>(stats.reserved_bytes) / kMiB);
  std::cout.flush();
  return absl::OkStatus();
}

// Prints the rows of strategy `only` and of levers whose names contain `lever_part`; empty selects
// all.
absl::Status Run(const std::string& preset, int ranks, absl::string_view only,
                 absl::string_view lever_part) {
  if (!only.empty()) ZEROTH_RETURN_IF_ERROR(StrategyRegistry::Create(only, {}).status());
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, PresetConfig(preset));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(config));
  bool all_alike = false;
  const ModelNumel numel = CountNumel(*model, all_alike);
  if (!all_alike) {
    std::cerr << "The layers differ: the formula takes the largest for all, and is an estimate.\n";
  }
  std::cout << absl::StreamFormat(
      "%s, %.1fM parameters, %d ranks, %d sequences of %d tokens a rank and micro-batch. Peaks in "
      "MiB.\n\n%-16s %5s %-10s %-23s %8s %8s %8s %8s %8s %9s %9s %7s %8s %8s %9s %9s\n",
      preset, numel.total / 1e6, ranks, kBatch, kSeq, "strategy", "ranks", "precision", "lever",
      "params", "gathered", "grads", "moments", "staging", "state", "formula", "off", "activ.",
      "scratch", "all", "reserved");
  for (const char* strategy :
       {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard", "hybrid_shard"}) {
    if (!only.empty() && only != strategy) continue;
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const Lever& lever : kLevers) {
        if (!absl::StrContains(lever.name, lever_part)) continue;
        MemoryFormulaOptions setup;
        setup.strategy = strategy;
        setup.world_size = ranks;
        setup.shard_size = setup.strategy == "hybrid_shard" ? std::max(1, ranks / 2) : 0;
        setup.precision = {dtype, dtype};
        setup.micro_batches = lever.micro_batches;
        setup.sync_every_micro_batch = lever.sync_every;
        setup.reshard_after_forward = lever.reshard_after_forward;
        const absl::string_view kinds = lever.offload;
        setup.offload.parameters = absl::StrContains(kinds, 'p');
        setup.offload.gradients = absl::StrContains(kinds, 'g');
        setup.offload.optimizer = absl::StrContains(kinds, 'o');
        setup.moment_dtype = lever.moment_dtype;
        if (!lever.keeps_masters) {
          if (dtype != DType::kBFloat16) continue;
          setup.precision.master_dtype = dtype;
        }
        const bool reshards = setup.strategy == "full_shard" || setup.strategy == "hybrid_shard";
        if (!lever.reshard_after_forward && !reshards) continue;  // these keep parameters anyway
        if (lever.halves_after_forward) {
          const int shards = setup.shard_size > 0 ? setup.shard_size : ranks;
          if (!reshards || shards % 2 != 0) continue;
          setup.post_forward_shard_size = shards / 2;
        }
        if (lever.optimizer_over_world && setup.strategy != "hybrid_shard") continue;
        setup.shard_optimizer_over_world = lever.optimizer_over_world;
        setup.sums_in_tree = lever.sums_in_tree;
        ZEROTH_RETURN_IF_ERROR(PrintRow(config, numel, setup, lever));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  const std::string preset = words.size() > 1 ? words[1] : "gpt2_124m";
  int ranks = 4;
  if (words.size() > 2 && (!absl::SimpleAtoi(words[2], &ranks) || ranks < 1)) {
    std::cerr << "the number of ranks is '" << words[2] << "', expected at least 1\n";
    return EXIT_FAILURE;
  }
  const auto choice = [&](size_t i) {
    const absl::string_view given = words.size() > i ? words[i] : "all";
    return given == "all" ? absl::string_view() : given;
  };
  const absl::Status status = zeroth::Run(preset, ranks, choice(3), choice(4));
  if (status.ok()) return EXIT_SUCCESS;
  std::cerr << status << "\n";
  return EXIT_FAILURE;
}
