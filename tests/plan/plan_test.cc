// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares plans with real runs (traffic), and with each other (what a faster link, more
// prefetching or more ranks must change). Also tests the output that programs read.

#include "zeroth/plan/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/plan/machine_file.h"
#include "zeroth/plan/search.h"

namespace zeroth {
namespace {

constexpr const char* kStrategies[] = {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard",
                                       "hybrid_shard"};

TrainOptions OptionsOf(const std::string& model, int ranks, const std::string& strategy) {
  TrainOptions options;
  options.data = "none";
  options.model = model;
  options.world_size = ranks;
  options.strategy = strategy;
  if (strategy == "hybrid_shard") options.shard_size = 2;
  options.comm = "nccl";
  options.reduction = Reduction::kNccl;
  options.threads_per_rank = 1;
  options.batch_size = 2;
  options.seq_len = 64;
  return options;
}

absl::StatusOr<std::unique_ptr<LanguageModel>> Build(const std::string& preset) {
  ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json config, PresetConfig(preset));
  return ModelRegistry::Create(config);
}

ModelBuilder Builder(const std::string& preset) {
  return [preset](std::optional<int64_t>) { return Build(preset); };
}

Machine Named(const std::string& name) {
  const absl::StatusOr<Machine> machine = OpenMachine(name);
  EXPECT_TRUE(machine.ok()) << machine.status();
  return machine.value_or(Machine());
}

Plan PlanOf(const TrainOptions& options, const Machine& machine) {
  absl::StatusOr<std::unique_ptr<LanguageModel>> model = Build(options.model);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const absl::StatusOr<Plan> plan = PlanRun(options, machine, *std::move(model));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value_or(Plan());
}

using Counters = std::array<int64_t, kCollectiveOpCount>;

// Bytes that rank 0 sends in the third step of a real run.
absl::Status MeasureTraffic(const TrainOptions& options, Communicator& world, Counters& bytes) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                          DeviceRegistry::Create("cpu", DeviceOptions()));
  device->BindThread();
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, Build(options.model));
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
  // The losses are shared by the world's own communicator.
  const auto sent = [&](size_t op) {
    return trainer->sharding().stats().collectives[op].bytes + world.stats().counters()[op].bytes;
  };
  for (int step = 0; step < 3; ++step) {
    Counters before{};
    for (size_t op = 0; op < before.size(); ++op) before[op] = sent(op);
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batches, 1e-4).status());
    for (size_t op = 0; op < before.size() && world.rank() == 0; ++op) {
      bytes[op] = sent(op) - before[op];
    }
  }
  return absl::OkStatus();
}

TEST(PlanTest, TrafficIsTheRunsOwn) {
  const Machine machine = Named("H100");
  for (const char* const strategy : kStrategies) {
    for (const int64_t micro_batches : {1, 2}) {
      TrainOptions options = OptionsOf("gpt2_nano", 4, strategy);
      options.grad_accum = micro_batches;
      options.grad_sync = GradSync::kLast;
      Counters measured{};
      const absl::Status run = RunLocalRanks(
          4, [&](Communicator& world) { return MeasureTraffic(options, world, measured); });
      ASSERT_TRUE(run.ok()) << run;
      Plan plan = PlanOf(options, machine);
      for (size_t op = 0; op < measured.size(); ++op) {
        const std::string kind(CollectiveOpName(static_cast<CollectiveOp>(op)));
        EXPECT_EQ(plan.bytes[kind], measured[op]) << strategy << ", " << kind;
      }
    }
  }
}

TEST(PlanTest, AWorldOf16384RanksIsOneRanksWork) {
  const Machine machine = Named("H100");
  TrainOptions options = OptionsOf("gpt2_124m", 16384, "full_shard");
  options.param_dtype = DType::kBFloat16;
  const Plan all = PlanOf(options, machine);
  options.world_size = 1024;
  const Plan some = PlanOf(options, machine);
  const auto at = [](const Plan& plan, MemoryCategory category) {
    return plan.memory[static_cast<size_t>(category)];
  };
  // With sixteen times the ranks, each holds a sixteenth, up to alignment.
  EXPECT_NEAR(static_cast<double>(at(some, MemoryCategory::kOptimizer)),
              16.0 * static_cast<double>(at(all, MemoryCategory::kOptimizer)),
              0.05 * static_cast<double>(at(some, MemoryCategory::kOptimizer)));
  // The ring has sixteen times as many steps.
  EXPECT_GT(all.exposed_communication_seconds, some.exposed_communication_seconds);
}

TEST(PlanTest, TheStepIsComputeAndWaiting) {
  const Machine machine = Named("A100-80");
  TrainOptions options = OptionsOf("gpt2_124m", 64, "full_shard");
  options.param_dtype = DType::kBFloat16;
  const Plan plan = PlanOf(options, machine);
  EXPECT_GT(plan.exposed_communication_seconds, 0);
  EXPECT_LE(plan.compute_seconds + plan.exposed_communication_seconds,
            plan.step_seconds * (1 + 1e-9));
  double exposed = 0;
  for (const auto& [kind, seconds] : plan.exposed) exposed += seconds;
  EXPECT_NEAR(exposed, plan.exposed_communication_seconds, 1e-12);
  EXPECT_DOUBLE_EQ(plan.tokens_per_second_per_rank, 2 * 64 / plan.step_seconds);
}

int64_t PeakOf(const PlanTimeline& timeline) {
  int64_t peak = 0;
  for (const Timeline::MemorySample& sample : timeline.memory) {
    peak = std::max(peak, std::accumulate(sample.bytes.begin(), sample.bytes.end(), int64_t{0}));
  }
  return peak;
}

// The waits in the trace add up to the plan's exposed time.
TEST(PlanTest, TheTimelineShowsWhatIsExposed) {
  const Machine machine = Named("A100-80");
  for (const char* const strategy : kStrategies) {
    TrainOptions options = OptionsOf("gpt2_124m", 64, strategy);
    options.param_dtype = DType::kBFloat16;
    PlanTimeline timeline;
    const absl::StatusOr<Plan> plan = PlanRun(options, machine, *Build(options.model), &timeline);
    ASSERT_TRUE(plan.ok()) << plan.status();
    double waited = 0;
    for (const Timeline::Span& span : timeline.spans) {
      const bool waits = absl::StartsWith(span.label, kWaitFor) || span.bytes >= 0;
      if (span.stream == "compute" && waits) waited += span.end - span.begin;
    }
    EXPECT_NEAR(waited, plan->exposed_communication_seconds,
                0.05 * plan->exposed_communication_seconds)
        << strategy;
    for (const Timeline::MemorySample& sample : timeline.memory) {
      EXPECT_GE(sample.seconds, 0);
      EXPECT_LE(sample.seconds, plan->step_seconds);
    }
    EXPECT_EQ(PeakOf(timeline), plan->memory_peak_bytes) << strategy;
  }
}

TEST(PlanTest, FasterLinksExposeLess) {
  TrainOptions options = OptionsOf("gpt2_124m", 64, "full_shard");
  options.param_dtype = DType::kBFloat16;
  options.batch_size = 8;
  options.seq_len = 1024;
  Machine machine = Named("A100-80");
  double last = PlanOf(options, machine).exposed_communication_seconds;
  EXPECT_GT(last, 0);
  for (int i = 0; i < 3; ++i) {
    machine.network_bandwidth *= 4;
    machine.link_bandwidth *= 4;
    machine.network_latency /= 4;
    machine.link_latency /= 4;
    const double exposed = PlanOf(options, machine).exposed_communication_seconds;
    EXPECT_LT(exposed, last);
    last = exposed;
  }
}

// gpt2_124m in bf16, with enough tokens on each of eight ranks to hide gathers.
TrainOptions LongBatchOnANode() {
  TrainOptions options = OptionsOf("gpt2_124m", 8, "full_shard");
  options.param_dtype = DType::kBFloat16;
  options.batch_size = 16;
  options.seq_len = 1024;
  return options;
}

// The plan has the real scheduler's overlap. With one gather buffer and no prefetch, each gather
// waits for the previous unit, and each unit for its gather.
TEST(PlanTest, ASecondBufferHidesGathers) {
  TrainOptions options = LongBatchOnANode();
  const Machine machine = Named("A100-80");
  Plan ahead = PlanOf(options, machine);
  options.prefetch = false;
  options.gather_buffers = 1;
  Plan late = PlanOf(options, machine);
  EXPECT_LT(ahead.step_seconds, late.step_seconds);
  EXPECT_LT(ahead.exposed["all_gather"], 0.5 * late.exposed["all_gather"]);
  EXPECT_EQ(ahead.bytes, late.bytes);
}

// Inside a node, gathers leave the SMs to compute. Across nodes they occupy some.
TEST(PlanTest, CopyEnginesGatherInsideANode) {
  TrainOptions options = LongBatchOnANode();
  const Machine machine = Named("H100");
  const auto compute = [&](NcclCopyEngine copy_engine) {
    options.nccl_copy_engine = copy_engine;
    return PlanOf(options, machine).compute_seconds;
  };
  EXPECT_LT(compute(NcclCopyEngine::kAuto), compute(NcclCopyEngine::kOff));
  EXPECT_EQ(compute(NcclCopyEngine::kAuto), compute(NcclCopyEngine::kOn));
  options.world_size = 16;
  EXPECT_EQ(compute(NcclCopyEngine::kAuto), compute(NcclCopyEngine::kOff));
}

// NCCL groups a unit's gathers into one operation, and its reductions into another, so that
// parameters sharded one by one do not each pay a link's latency.
TEST(PlanTest, RowsWaitForALatencyOfEachUnit) {
  TrainOptions options = OptionsOf("llama_tiny", 8, "full_shard");
  options.nccl_copy_engine = NcclCopyEngine::kOff;
  Machine machine = Named("H100");
  machine.link_latency = 1;
  const double flat = PlanOf(options, machine).step_seconds;
  options.layout = LayoutKind::kRows;
  EXPECT_NEAR(PlanOf(options, machine).step_seconds / flat, 1, 0.01);
}

TEST(PlanTest, RanksThatShareAGpuHaveAPartOfItEach) {
  TrainOptions options = OptionsOf("gpt2_124m", 2, "no_shard");
  options.param_dtype = DType::kBFloat16;
  options.batch_size = 8;
  options.seq_len = 1024;
  const Machine machine = Named("H100");
  const Plan apart = PlanOf(options, machine);
  options.comm = "local";
  const Plan shared = PlanOf(options, machine);
  EXPECT_NEAR(shared.compute_seconds, 2 * apart.compute_seconds, 0.2 * apart.compute_seconds);
  EXPECT_NEAR(static_cast<double>(shared.memory_limit_bytes),
              static_cast<double>(apart.memory_limit_bytes) / 2, 1);
}

// The reductions in a fixed order stage what the others send.
TEST(PlanTest, TheTreeTakesStaging) {
  TrainOptions options = OptionsOf("gpt2_124m", 8, "full_shard");
  const Machine machine = Named("H100");
  const auto staging = [&] {
    return PlanOf(options, machine).memory[static_cast<size_t>(MemoryCategory::kCommunication)];
  };
  EXPECT_LT(staging(), 1 << 20);
  options.reduction = Reduction::kTree;
  // Seven eighths of the root's gradients.
  EXPECT_GT(staging(), int64_t{7} * 50257 * 768 * 4 / 8);
  // Over several nodes, in blocks.
  options.world_size = 16;
  EXPECT_LT(staging(), 65 << 20);
  EXPECT_GT(staging(), 32 << 20);
}

// cuDNN's backward keeps 2 bytes for each score, of as many key heads at a time as 2 GiB hold.
TEST(PlanTest, AttentionKeepsScoresWhereCudnnDoes) {
  TrainOptions options = OptionsOf("llama_tiny", 1, "no_shard");
  options.param_dtype = DType::kBFloat16;
  options.batch_size = 1;
  const Machine machine = Named("H100");
  nlohmann::json config = PresetConfig(options.model).value();
  config["max_position_embeddings"] = 32768;
  const auto workspace = [&](int64_t seq_len, const Machine& on) {
    options.seq_len = seq_len;
    const absl::StatusOr<Plan> plan = PlanRun(options, on, ModelRegistry::Create(config).value());
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.value_or(Plan()).memory[static_cast<size_t>(MemoryCategory::kWorkspace)];
  };
  ASSERT_EQ(config["num_attention_heads"], 4);
  ASSERT_EQ(config["num_key_value_heads"], 2);
  const auto one_head = [](int64_t seq_len) { return 2 * seq_len * seq_len; };
  constexpr double kOther = 5e7;  // of GEMMs and RoPE
  EXPECT_NEAR(workspace(8192, machine), 4 * one_head(8192), kOther);
  EXPECT_NEAR(workspace(20480, machine), 2 * one_head(20480), kOther);
  EXPECT_LT(workspace(32768, machine), one_head(8192));  // a key head does not fit
  EXPECT_LT(workspace(8192, Named("B200")), one_head(8192));
  // cuDNN computes no attention within packed documents.
  options.attend_within = AttendWithin::kDocument;
  EXPECT_LT(workspace(8192, machine), one_head(8192));
  options.attend_within = AttendWithin::kAuto;
  // Its other engine keeps an fp32 gradient of the queries instead.
  options.attention_determinism = AttentionDeterminism::kOff;
  EXPECT_LT(workspace(8192, machine), one_head(8192));
  options.attention_determinism = AttentionDeterminism::kOn;
  options.attention_backend = AttentionBackend::kFlash;
  EXPECT_LT(workspace(8192, machine), one_head(8192));
  options.attention_backend = AttentionBackend::kAuto;
  options.like = Like::kFsdp2;
  EXPECT_LT(workspace(8192, machine), one_head(8192));
  options.like = Like::kZeroth;
  options.param_dtype = DType::kFloat32;
  EXPECT_LT(workspace(8192, machine), one_head(8192));
}

TEST(PlanTest, JsonHasTheKeysThatProgramsRead) {
  const nlohmann::json json =
      PlanJson(PlanOf(OptionsOf("gpt2_nano", 2, "full_shard"), Named("H100")));
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.insert(key);
  EXPECT_EQ(keys,
            std::set<std::string>({"memory_peak_bytes", "memory_reserved_bytes", "memory", "fits",
                                   "step_seconds", "tokens_per_second_per_rank", "flop_utilization",
                                   "compute_seconds", "exposed_communication_seconds", "bytes",
                                   "bytes_across_nodes", "operations"}));
  int64_t sum = 0;
  for (const auto& [category, bytes] : json["memory"].items()) sum += bytes.get<int64_t>();
  EXPECT_EQ(sum, json["memory_peak_bytes"].get<int64_t>());
  EXPECT_GT(json["bytes"]["all_gather"].get<int64_t>(), 0);
  EXPECT_TRUE(json["fits"].get<bool>());
}

TEST(PlanTest, LikeAnotherSystem) {
  TrainOptions options = OptionsOf("gpt2_nano", 2, "full_shard");
  const Machine machine = Named("H100");
  const Plan ours = PlanOf(options, machine);
  EXPECT_EQ(ours.memory_reserved_bytes, ours.memory_peak_bytes);
  options.like = Like::kMegatronFsdp;
  const Plan flat = PlanOf(options, machine);
  EXPECT_EQ(flat.memory_peak_bytes, ours.memory_peak_bytes);
  EXPECT_GT(flat.memory_reserved_bytes, flat.memory_peak_bytes);
  options.like = Like::kFsdp2;
  const Plan copying = PlanOf(options, machine);
  EXPECT_GT(copying.memory_peak_bytes, ours.memory_peak_bytes);
  EXPECT_GT(copying.step_seconds, ours.step_seconds);
  EXPECT_EQ(copying.bytes, ours.bytes);
}

// Gradients are collected in a bucket of 5e8 elements that stays, and reduced from a copy.
TEST(PlanTest, LikeDeepSpeedABucketStays) {
  TrainOptions options = OptionsOf("llama3_8b", 8, "full_shard");
  options.param_dtype = DType::kBFloat16;
  options.reduce_dtype = DType::kBFloat16;
  options.activation_checkpointing = ActivationCheckpointing::kBlock;
  options.seq_len = 1024;
  options.like = Like::kFsdp2;
  const Plan fsdp2 = PlanOf(options, Named("H100"));
  options.like = Like::kDeepspeed;
  const Plan deepspeed = PlanOf(options, Named("H100"));
  constexpr auto kGradients = static_cast<size_t>(MemoryCategory::kGradients);
  EXPECT_NEAR(static_cast<double>(deepspeed.memory[kGradients] - fsdp2.memory[kGradients]), 1e9,
              1e6);
  EXPECT_EQ(deepspeed.bytes, fsdp2.bytes);
}

// An additional sequence needs the memory that selective checkpointing keeps for it and, without a
// fused loss, logits in bf16 and three times as many fp32 values.
TEST(PlanTest, LikeFsdp2ASequenceTakesItsLogits) {
  TrainOptions options = OptionsOf("llama3_8b", 8, "full_shard");
  options.param_dtype = DType::kBFloat16;
  options.seq_len = 8192;
  options.activation_checkpointing = ActivationCheckpointing::kSelective;
  options.like = Like::kFsdp2;
  options.batch_size = 1;
  const Plan one = PlanOf(options, Named("H100"));
  options.batch_size = 2;
  const Plan two = PlanOf(options, Named("H100"));
  const double block = 2.0 * (4096 + 4096 + 1024 + 4096 + 14336) + 4.0 * 32;
  const double ends = 2.0 * 3 * 4096;  // the last block's output, normalised, and its gradient
  const double logits = (2.0 + 3 * 4.0) * 128256;
  const double expected = 8192 * (32 * block + ends + logits);
  EXPECT_NEAR(static_cast<double>(two.memory_peak_bytes - one.memory_peak_bytes), expected,
              0.001 * expected);
}

// Under no_sync gradient shards are allocated when the full gradients are freed.
TEST(PlanTest, LikeFsdp2GradientsThatAddUpInFullHaveNoShardsBeside) {
  TrainOptions options = OptionsOf("llama3_8b", 4, "full_shard");
  options.param_dtype = DType::kBFloat16;
  options.master_dtype = DType::kBFloat16;
  options.optimizer_state_dtype = DType::kBFloat16;
  options.activation_checkpointing = ActivationCheckpointing::kBlock;
  options.seq_len = 4096;
  options.batch_size = 4;
  options.grad_accum = 2;
  options.grad_sync = GradSync::kLast;
  options.like = Like::kFsdp2;
  PlanTimeline timeline;
  const Plan plan =
      PlanRun(options, Named("H200"), *Build(options.model), &timeline).value_or(Plan());
  EXPECT_EQ(PeakOf(timeline), plan.memory_peak_bytes);
  const double parameters = 8030261248;
  EXPECT_NEAR(static_cast<double>(plan.memory_reserved_bytes - plan.memory_peak_bytes),
              4 * parameters / 4 + 1.2 * (int64_t{1} << 30), 1e6);
  const double state = parameters * (6.0 / 4 + 4);
  const double inputs = 2.0 * 4096 * (32 + 3);
  const double logits = 4 * 2.0 * 128256;
  const double expected = state + 4 * 4096 * (inputs + logits);
  EXPECT_NEAR(static_cast<double>(plan.memory_peak_bytes), expected, 0.005 * expected);
  EXPECT_TRUE(absl::StrContains(plan.moment, "loss")) << plan.moment;
}

// Strategies that keep units until the step ends hold them while the loss is computed.
TEST(PlanTest, LikeFsdp2GatheredUnitsThatStayAreThereAtTheLoss) {
  TrainOptions options = OptionsOf("llama3_8b", 8, "shard_grad_op");
  options.param_dtype = DType::kBFloat16;
  options.activation_checkpointing = ActivationCheckpointing::kBlock;
  options.seq_len = 8192;
  options.like = Like::kFsdp2;
  const Plan keeps = PlanOf(options, Named("H200"));
  options.strategy = "full_shard";
  const Plan frees = PlanOf(options, Named("H200"));
  options.reshard_after_forward = "false";
  EXPECT_NEAR(static_cast<double>(PlanOf(options, Named("H200")).memory_peak_bytes),
              static_cast<double>(keeps.memory_peak_bytes), 1e6);
  EXPECT_GT(keeps.memory_peak_bytes - frees.memory_peak_bytes, int64_t{12} << 30);
}

TEST(PlanTest, SelectiveCheckpointingIsBetweenNoneAndBlocks) {
  TrainOptions options = OptionsOf("llama3_8b", 8, "full_shard");
  options.param_dtype = DType::kBFloat16;
  options.seq_len = 4096;
  std::vector<Plan> plans;
  for (const ActivationCheckpointing what :
       {ActivationCheckpointing::kNone, ActivationCheckpointing::kSelective,
        ActivationCheckpointing::kBlock}) {
    options.activation_checkpointing = what;
    plans.push_back(PlanOf(options, Named("H100")));
  }
  for (size_t i = 1; i < plans.size(); ++i) {
    EXPECT_LT(plans[i].memory_peak_bytes, plans[i - 1].memory_peak_bytes);
    EXPECT_GT(plans[i].compute_seconds, plans[i - 1].compute_seconds);
  }
}

TEST(PlanTest, SaysWhetherItFitsAndWhere) {
  TrainOptions options = OptionsOf("gpt2_nano", 2, "no_shard");
  const Machine machine = Named("H100");
  const Plan plan = PlanOf(options, machine);
  EXPECT_TRUE(plan.fits);
  EXPECT_TRUE(absl::StartsWith(plan.moment, "backward") || absl::StartsWith(plan.moment, "forward"))
      << plan.moment;
  options.memory_limit = absl::StrCat(plan.memory_peak_bytes - 1);
  EXPECT_FALSE(PlanOf(options, machine).fits);
  options.memory_limit = absl::StrCat(plan.memory_peak_bytes);
  EXPECT_TRUE(PlanOf(options, machine).fits);
}

TEST(PlanSearchTest, TheFastestThatFitComeFirst) {
  TrainOptions options = OptionsOf("gpt2_124m", 16, "full_shard");
  options.param_dtype = DType::kBFloat16;
  options.batch_size = 8;
  options.seq_len = 1024;
  options.memory_limit = "3GiB";
  const absl::StatusOr<std::vector<PlannedRun>> runs =
      SearchPlans(options, Named("A100-40"), Builder("gpt2_124m"));
  ASSERT_TRUE(runs.ok()) << runs.status();
  // Five strategies, six ways of checkpointing, micro-batches of 1, 2, 4 and 8.
  EXPECT_EQ(runs->size(), 5u * 6 * 4);
  EXPECT_TRUE(runs->front().plan.fits);
  EXPECT_FALSE(runs->back().plan.fits);
  for (size_t i = 1; i < runs->size(); ++i) {
    const Plan& before = (*runs)[i - 1].plan;
    const Plan& here = (*runs)[i].plan;
    EXPECT_GE(before.fits, here.fits);
    if (here.fits) {
      EXPECT_GE(before.tokens_per_second_per_rank, here.tokens_per_second_per_rank);
    }
    EXPECT_EQ((*runs)[i].options.batch_size * (*runs)[i].options.grad_accum, 8);
  }
  EXPECT_TRUE(absl::StrContains(SearchText(*runs, 3), "117 more were tried"));
  options.quantized_weights = true;
  const absl::StatusOr<std::vector<PlannedRun>> quantized =
      SearchPlans(options, Named("A100-40"), Builder("gpt2_124m"));
  ASSERT_TRUE(quantized.ok()) << quantized.status();
  EXPECT_FALSE(quantized->empty());
  for (const PlannedRun& run : *quantized) {
    EXPECT_FALSE(absl::StrContains(run.change, "no_shard")) << run.change;
  }
}

TEST(PlanSearchTest, TheCheapestChangesMakeItFit) {
  TrainOptions options = OptionsOf("gpt2_124m", 8, "no_shard");
  options.param_dtype = DType::kBFloat16;
  options.batch_size = 8;
  options.seq_len = 1024;
  options.memory_limit = "3500MiB";
  const Machine machine = Named("A100-40");
  const Plan asked = PlanOf(options, machine);
  ASSERT_FALSE(asked.fits);
  const absl::StatusOr<std::vector<PlannedRun>> cheapest =
      CheapestThatFit(options, machine, Builder("gpt2_124m"), 3);
  ASSERT_TRUE(cheapest.ok()) << cheapest.status();
  ASSERT_FALSE(cheapest->empty());
  EXPECT_LE(cheapest->size(), 3u);
  for (const PlannedRun& run : *cheapest) {
    EXPECT_TRUE(run.plan.fits) << run.change;
    EXPECT_LT(run.plan.memory_peak_bytes, asked.memory_peak_bytes);
  }
  EXPECT_TRUE(absl::StrContains(CheapestText(*cheapest, asked), cheapest->front().change));
  options.memory_limit = "1MiB";
  const absl::StatusOr<std::vector<PlannedRun>> none =
      CheapestThatFit(options, machine, Builder("gpt2_124m"), 3);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->empty());
  EXPECT_TRUE(absl::StrContains(CheapestText(*none, asked), "take more ranks"));
}

// Equal micro-batches do not slow down planning, however many there are, and the plan is the same.
TEST(PlanTest, MicroBatchesAreNotPlannedOneByOne) {
  const Machine machine = Named("H100");
  for (const char* const strategy : kStrategies) {
    for (const GradSync sync : {GradSync::kEvery, GradSync::kLast}) {
      TrainOptions options = OptionsOf("gpt2_124m", 4, strategy);
      options.grad_sync = sync;
      SCOPED_TRACE(absl::StrCat(strategy, " ", OptionText("grad_sync", options)));
      options.param_dtype = DType::kBFloat16;
      options.grad_accum = 11;
      PlanTimeline all;
      const absl::StatusOr<Plan> whole = PlanRun(options, machine, *Build("gpt2_124m"), &all);
      ASSERT_TRUE(whole.ok()) << whole.status();
      const Plan plan = PlanOf(options, machine);
      EXPECT_EQ(plan.memory_peak_bytes, whole->memory_peak_bytes);
      EXPECT_EQ(plan.bytes, whole->bytes);
      EXPECT_NEAR(plan.step_seconds / whole->step_seconds, 1, 1e-3);
      EXPECT_NEAR(plan.compute_seconds / whole->compute_seconds, 1, 1e-3);
      EXPECT_NEAR(plan.exposed_communication_seconds, whole->exposed_communication_seconds,
                  1e-3 * whole->step_seconds);
      // This one would not end otherwise.
      options.grad_accum = 11'000'000;
      EXPECT_NEAR(PlanOf(options, machine).step_seconds / plan.step_seconds, 1e6, 2e5);
    }
  }
}

// Over nodes a tree sends what a ring of fp32 sends, so that full_shard is ahead of groups inside a
// node as under NCCL's own reductions.
TEST(PlanTest, OverNodesATreeSendsWhatARingSends) {
  TrainOptions options = OptionsOf("llama3_8b", 64, "full_shard");
  options.param_dtype = options.reduce_dtype = DType::kBFloat16;
  options.batch_size = 1;
  options.seq_len = 2048;
  const Machine machine = Named("H100");
  const auto planned = [&] { return PlanOf(options, machine); };
  const Plan ring = planned();
  options.reduction = Reduction::kTree;
  const Plan tree = planned();
  // The tree sends 7 of 8 sums of an eighth of the gradients, in fp32; the ring sends 63 of 64
  // pieces through 8 NICs.
  EXPECT_NEAR(static_cast<double>(tree.bytes_across_nodes.at("reduce_scatter")) /
                  static_cast<double>(ring.bytes_across_nodes.at("reduce_scatter")),
              2 * 8 * 7.0 / 63, 0.01);
  EXPECT_EQ(tree.bytes_across_nodes.at("all_gather"), ring.bytes_across_nodes.at("all_gather"));
  EXPECT_LT(tree.step_seconds, 1.08 * ring.step_seconds);
  EXPECT_TRUE(absl::StrContains(PlanText(tree, options, machine), "MiB to other nodes"));
  // Groups inside a node gather nothing over the network, but all-reduce whole fp32 shards over it,
  // mostly after backward, where nothing overlaps.
  options.strategy = "hybrid_shard";
  options.shard_size = 8;
  const Plan hybrid = planned();
  EXPECT_EQ(hybrid.bytes_across_nodes.count("all_gather"), 0);
  EXPECT_EQ(hybrid.bytes_across_nodes.count("reduce_scatter"), 0);
  EXPECT_GT(hybrid.step_seconds, tree.step_seconds);
}

TEST(PlanSearchTest, ASearchEndsWhenItIsOver) {
  TrainOptions options = OptionsOf("gpt2_124m", 8, "no_shard");
  options.memory_limit = "1MiB";
  const absl::StatusOr<std::string> text =
      TextOfChanges(options, Named("A100-40"), Builder("gpt2_124m"), [] { return true; });
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(absl::StrContains(*text, "nothing has been found so far")) << *text;
  EXPECT_TRUE(absl::StrContains(*text, "//tools/plan")) << *text;
}

// One GPU like FSDP2: gradients are there from the end of the backward on.
TEST(PlanTest, ABackwardInOnePiecePeaksAtTheLossOrAtItsEnd) {
  TrainOptions options = OptionsOf("gpt2_124m", 1, "full_shard");
  options.like = Like::kFsdp2;
  options.param_dtype = options.master_dtype = options.optimizer_state_dtype = DType::kBFloat16;
  options.seq_len = 1024;
  options.activation_checkpointing = ActivationCheckpointing::kNone;
  options.batch_size = 8;
  const Machine machine = Named("H200");
  constexpr auto kGradients = static_cast<size_t>(MemoryCategory::kGradients);
  PlanTimeline timeline;
  const absl::StatusOr<Plan> loss = PlanRun(options, machine, *Build("gpt2_124m"), &timeline);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_EQ(loss->moment, "forward root, at the loss");
  EXPECT_EQ(loss->memory[kGradients], 0);
  EXPECT_EQ(PeakOf(timeline), loss->memory_peak_bytes);
  options.grad_accum = 2;
  const Plan second = PlanOf(options, machine);
  const int64_t one_set = second.memory[kGradients];
  EXPECT_NEAR(static_cast<double>(second.memory_peak_bytes),
              static_cast<double>(loss->memory_peak_bytes + one_set), 1e6);
  options.batch_size = 1;
  options.activation_checkpointing = ActivationCheckpointing::kBlock;
  const absl::StatusOr<Plan> end = PlanRun(options, machine, *Build("gpt2_124m"), &timeline);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->moment, "the end of the backward");
  EXPECT_EQ(end->memory[kGradients], 2 * one_set);
  EXPECT_EQ(PeakOf(timeline), end->memory_peak_bytes);
  // Frozen weights have no gradients.
  std::unique_ptr<LanguageModel> frozen = *Build("gpt2_124m");
  for (Parameter* parameter : frozen->Parameters()) {
    parameter->set_requires_grad(parameter == frozen->Parameters().back());
  }
  const absl::StatusOr<Plan> small = PlanRun(options, machine, std::move(frozen));
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_LT(small->memory[kGradients], one_set / 20);
}

class MachineFileTest : public testing::Test {
 protected:
  absl::StatusOr<Machine> Open(const std::string& text) {
    const std::string path = absl::StrCat(testing::TempDir(), "/machine.toml");
    std::ofstream(path) << text;
    return OpenMachine(path);
  }
};

TEST_F(MachineFileTest, WhatIsWrittenIsRead) {
  for (const std::string& name : MachineNames()) {
    if (name == "cpu") continue;
    const absl::StatusOr<Machine> machine = OpenMachine(name);
    ASSERT_TRUE(machine.ok()) << machine.status();
    const absl::StatusOr<Machine> read = Open(MachineText(*machine));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(MachineText(*read), MachineText(*machine));
    EXPECT_EQ(read->memory_bytes, machine->memory_bytes) << name;
    EXPECT_EQ(read->memory_bandwidth, machine->memory_bandwidth) << name;
  }
  Machine machine = *OpenMachine("H100");
  machine.name = "node \"A\\B\"";
  const absl::StatusOr<Machine> read = Open(MachineText(machine));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, machine.name);
}

TEST_F(MachineFileTest, ThisCpuIsMeasuredAndReadBack) {
  const absl::StatusOr<Machine> cpu = OpenMachine("cpu");
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  for (const double rate : {cpu->memory_bytes, cpu->fp32_flops, cpu->tf32_flops, cpu->bf16_flops,
                            cpu->memory_bandwidth, cpu->link_bandwidth, cpu->link_latency,
                            cpu->network_bandwidth, cpu->network_latency, cpu->host_bandwidth}) {
    EXPECT_TRUE(std::isfinite(rate) && rate > 0) << MachineText(*cpu);
  }
  // A GEMM has many operations for each byte that it reads.
  EXPECT_GT(cpu->fp32_flops, cpu->memory_bandwidth / 8) << MachineText(*cpu);
  // A step is not longer than the time to send 64 MiB.
  EXPECT_LT(cpu->link_latency, (64 << 20) / cpu->link_bandwidth) << MachineText(*cpu);
  EXPECT_GT(cpu->link_rates.size(), 1u) << MachineText(*cpu);
  const absl::StatusOr<Machine> read = Open(MachineText(*cpu));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(MachineText(*read), MachineText(*cpu));
}

TEST_F(MachineFileTest, LikeAnotherButForAFewFields) {
  const absl::StatusOr<Machine> machine = Open("like = \"H100\"\nbf16_flops = 7.15e14\n");
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->bf16_flops, 7.15e14);
  EXPECT_EQ(machine->link_bandwidth, OpenMachine("H100")->link_bandwidth);
}

TEST_F(MachineFileTest, LinkRatesAreReadInTheOrderOfTheColumns) {
  const absl::StatusOr<Machine> machine =
      Open("like = \"H100\"\nlink_rates = [[1e6, 1e9, 2e9, 3e9], [4e6, 5e9, 6e9, 7e9]]\n");
  ASSERT_TRUE(machine.ok()) << machine.status();
  ASSERT_EQ(machine->link_rates.size(), 2u);
  const LinkRate& last = machine->link_rates[1];
  EXPECT_EQ(last.bytes, 4e6);
  EXPECT_EQ(last.all_gather, 5e9);
  EXPECT_EQ(last.reduce_scatter, 6e9);
  EXPECT_EQ(last.all_reduce, 7e9);
}

TEST_F(MachineFileTest, ErrorsNameTheField) {
  const auto refused = [&](const std::string& text, const std::string& part) {
    const absl::Status status = Open(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
  };
  refused("like = \"H100\"\nlinks = 3\n", "machine.toml:2: there is no field links");
  refused("like = \"H100\"\nlink_bandwidth = -1\n", "expected a number above 0");
  refused("like = \"H100\"\nbf16_flops = nan\n", "expected a number above 0");
  refused("like = \"H100\"\nmemory_bytes = 1e9\n", "reserved_bytes, which no run has");
  for (const char* const rates : {"3", "[[1e6, 1e9, 1e9]]", "[[1e6, 1e9, 1e9, 0]]",
                                  "[[1e6, 1e9, 1e9, 1e9], [1e6, 1e9, 1e9, 1e9]]", "[1e6]"}) {
    refused(absl::StrCat("like = \"H100\"\nlink_rates = ", rates, "\n"),
            "machine.toml:2: link_rates: expected rows of four numbers");
  }
  refused("like = \"H100\"\nis_gpu = 1\n", "expected true or false");
  refused("like = \"H1000\"\n", "unknown machine 'H1000'");
  refused("like = 5\n", "machine.toml:1: like is not a text");
  refused("like = \"H100\"\nname = 5\n", "machine.toml:2: name is not a text");
  refused("like = \"H100\"\ncollective_multiprocessors = 132\n",
          "expected fewer than the 132 of multiprocessors");
  refused("is_gpu = true\n", "lacks memory_bytes");
  refused("link_bandwidth =\n", "machine.toml:1");
  EXPECT_TRUE(absl::StrContains(OpenMachine("V100").status().message(), "ends in .toml"));
}

}  // namespace
}  // namespace zeroth
