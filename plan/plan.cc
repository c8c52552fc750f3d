// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/plan/plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/planned/planned_communicator.h"
#include "zeroth/core/device/planned/planned_device.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/plan/system.h"
#include "zeroth/plan/teacher.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {
namespace {

// The first steps record the order of units; the last is like all later steps of a run.
constexpr int kSteps = 3;
// The most micro-batches of a step that are planned. Later ones repeat the last.
constexpr int64_t kMicroBatches = 4;
constexpr int kComputeStream = 0;  // the device's first stream

// Returns the machine as one rank sees it, with its share of a node's memory or of a shared GPU.
Machine ForRanks(Machine machine, const TrainOptions& options) {
  const bool threads = options.comm == "local";  // ranks of one process, on one node
  // Other systems let attention's backward be nondeterministic, which keeps no scores.
  machine.attention_keeps_scores &= options.like == Like::kZeroth;
  if (!machine.is_gpu) {
    machine.devices_per_node =
        threads ? options.world_size
                : std::max(1, machine.devices_per_node / ThreadsPerRank(options));
    machine.memory_bytes /= machine.devices_per_node;
    machine.reserved_bytes /= machine.devices_per_node;
    return machine;
  }
  if (!threads || options.world_size == 1) return machine;
  // The ranks share a GPU and exchange data through its memory.
  const double ranks = options.world_size;
  machine.devices_per_node = options.world_size;
  machine.link_bandwidth = machine.memory_bandwidth / 2;
  machine.link_latency = machine.launch_seconds;
  machine.link_rates.clear();
  for (double* const shared :
       {&machine.memory_bytes, &machine.reserved_bytes, &machine.fp32_flops, &machine.tf32_flops,
        &machine.bf16_flops, &machine.fp8_flops, &machine.memory_bandwidth, &machine.link_bandwidth,
        &machine.host_bandwidth}) {
    *shared /= ranks;
  }
  return machine;
}

absl::StatusOr<Batch> EmptyBatch(const TrainOptions& options) {
  Batch batch;
  batch.batch = options.batch_size;
  batch.seq = options.seq_len;
  batch.inputs.resize(static_cast<size_t>(batch.batch * batch.seq));
  batch.targets.resize(batch.inputs.size());
  const bool has_pairs = options.preference().has_value();
  if (has_pairs || options.attend_within == AttendWithin::kDocument) {
    batch.starts.resize(batch.inputs.size());
  }
  if (has_pairs) {
    batch.pairs.resize(3 * PairsInBatch(batch.batch, batch.seq));
    batch.counted = 1;
    if (options.objective == Objective::kKto) batch.labels.resize(batch.pairs.size() / 3);
    if (options.caches_reference()) batch.reference.resize(batch.inputs.size());
  }
  if (!options.teacher_topk.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const TeacherTopK> teacher,
                            TeacherTopK::Open(options.teacher_topk, /*vocab_size=*/0));
    batch.teacher_ids.resize(batch.inputs.size() * static_cast<size_t>(teacher->facts().k));
    batch.teacher_log_probs.resize(batch.teacher_ids.size());
  }
  return batch;
}

// Adds up what the kernels of a planned device record.
class OperationCounter : public CallWatch {
 public:
  OperationCounter(const WorkLedger& ledger, Kernels& kernels)
      : ledger_(ledger), kernels_(kernels) {
    kernels_.set_watch(this);
  }
  ~OperationCounter() override { kernels_.set_watch(nullptr); }

  void BeforeCall(const char* /*operation*/) override { begin_ = ledger_.entries().size(); }
  absl::Status AfterCall(const char* operation, absl::Span<const CallField> /*fields*/) override {
    OperationCost& cost = costs_[operation];
    ++cost.calls;
    for (size_t i = begin_; i < ledger_.entries().size(); ++i) {
      const PlannedWork& work = ledger_.entries()[i].work;
      cost += {0, work.launches, work.flops, work.memory_bytes, work.seconds + work.latency};
    }
    return absl::OkStatus();
  }

  // Returns the costs since the last call of this function.
  std::map<std::string, OperationCost> Take() { return std::exchange(costs_, {}); }

 private:
  const WorkLedger& ledger_;
  Kernels& kernels_;
  size_t begin_ = 0;  // the first entry of the call
  std::map<std::string, OperationCost> costs_;
};

// Returns the last labelled work of the compute stream up to `entry`; nullptr before the first.
const WorkLedger::Entry* LastComputed(const WorkLedger& ledger, int entry) {
  for (; entry >= 0; --entry) {
    const WorkLedger::Entry& at = ledger.entries()[static_cast<size_t>(entry)];
    if (at.stream == kComputeStream && !at.work.label.empty()) return &at;
  }
  return nullptr;
}

int64_t TotalOf(const Timeline::MemorySample& sample) {
  return std::accumulate(sample.bytes.begin(), sample.bytes.end(), int64_t{0});
}

// Returns at most two samples for each position of the compute stream: the highest and the last.
std::vector<Timeline::MemorySample> MemoryOverTime(
    const WorkLedger& ledger, const std::vector<PlannedAllocator::MemorySnapshot>& snapshots) {
  std::vector<Timeline::MemorySample> samples;
  for (const PlannedAllocator::MemorySnapshot& snapshot : snapshots) {
    const WorkLedger::Entry* const at = LastComputed(ledger, snapshot.entry);
    const double seconds = at == nullptr ? 0 : at->begin;
    const size_t count = samples.size();
    if (count >= 2 && samples[count - 2].seconds == seconds) {
      if (TotalOf(samples[count - 1]) > TotalOf(samples[count - 2])) {
        samples[count - 2] = samples[count - 1];
      }
      samples.pop_back();
    }
    samples.push_back({seconds, snapshot.categories});
  }
  return samples;
}

// Names the place in the step of a ledger entry: the innermost span around the last work that the
// compute stream had done by then.
std::string MomentOf(const WorkLedger& ledger, int entry,
                     const std::vector<Timeline::Span>& spans) {
  const WorkLedger::Entry* const at = LastComputed(ledger, entry);
  if (at == nullptr) return "the step's beginning";
  const double middle = (at->begin + at->end) / 2;
  const Timeline::Span* inside = nullptr;
  for (const Timeline::Span& span : spans) {
    const bool around = span.stream == "compute" && span.begin <= middle && middle <= span.end;
    if (around && (inside == nullptr || span.begin >= inside->begin)) inside = &span;
  }
  return absl::StrCat(inside == nullptr ? "between the units" : inside->label, ", at ",
                      at->work.label);
}

// True if micro-batches accumulate in full gradients, which are reduced once.
bool AccumulatesFullGradients(const TrainOptions& options) {
  return options.grad_accum > 1 && options.grad_sync == GradSync::kLast;
}

bool IsCollective(const PlannedWork& work) { return *work.collective != '\0'; }

// Fills in times and traffic from the entries of the last step.
void ReadTimes(const WorkLedger& ledger, Plan& plan) {
  std::vector<const WorkLedger::Entry*> collectives;
  std::vector<std::pair<double, double>> waits;
  double at = 0;
  for (const WorkLedger::Entry& entry : ledger.entries()) {
    plan.step_seconds = std::max(plan.step_seconds, entry.end);
    if (IsCollective(entry.work)) {
      plan.bytes[entry.work.collective] += entry.work.bytes;
      if (entry.work.bytes_across > 0) {
        plan.bytes_across_nodes[entry.work.collective] += entry.work.bytes_across;
      }
      collectives.push_back(&entry);
    } else if (entry.stream == kComputeStream && entry.end > entry.begin) {
      plan.compute_seconds += entry.end - entry.begin;
      if (entry.begin > at) waits.emplace_back(at, entry.begin);
      at = entry.end;
    }
  }
  if (plan.step_seconds > at) waits.emplace_back(at, plan.step_seconds);
  std::sort(collectives.begin(), collectives.end(),
            [](const auto* a, const auto* b) { return a->begin < b->begin; });
  // Each moment of waiting counts once, for the collective that began first.
  for (const auto& [begin, end] : waits) {
    double covered = begin;
    for (const WorkLedger::Entry* entry : collectives) {
      const double from = std::max(covered, entry->begin);
      const double to = std::min(end, entry->end);
      if (to <= from) continue;
      plan.exposed[entry->work.collective] += to - from;
      plan.exposed_communication_seconds += to - from;
      covered = to;
    }
  }
}

// Adds the inputs and losses (StepInputs) of micro-batches like `batch` that were not planned. They
// are live for the whole step.
void AddInputs(int64_t micro_batches, const Batch& batch, Plan& plan) {
  const size_t values = batch.inputs.size() + batch.targets.size() + batch.starts.size() +
                        batch.pairs.size() + batch.labels.size() + batch.reference.size() +
                        batch.teacher_ids.size() + batch.teacher_log_probs.size();
  const auto inputs = static_cast<int64_t>(values * SizeOf(DType::kInt32));
  const int64_t losses = 2 * static_cast<int64_t>(SizeOf(DType::kFloat32));
  plan.memory[static_cast<size_t>(MemoryCategory::kActivations)] += micro_batches * inputs;
  plan.memory[static_cast<size_t>(MemoryCategory::kCommunication)] += micro_batches * losses;
  plan.memory_peak_bytes += micro_batches * (inputs + losses);
}

// Adds the times and traffic of `more` micro-batches to `plan`. Each costs as much as the last one
// of `plan`: the difference between `plan` and `fewer`, a plan with one micro-batch less.
void AddMicroBatches(int64_t more, Plan fewer, Plan& plan) {
  const auto add = [more](auto& value, auto without) {
    value += static_cast<std::decay_t<decltype(value)>>(more) * (value - without);
  };
  add(plan.step_seconds, fewer.step_seconds);
  add(plan.compute_seconds, fewer.compute_seconds);
  add(plan.exposed_communication_seconds, fewer.exposed_communication_seconds);
  for (auto& [kind, seconds] : plan.exposed) add(seconds, fewer.exposed[kind]);
  for (auto& [kind, bytes] : plan.bytes) add(bytes, fewer.bytes[kind]);
  for (auto& [kind, bytes] : plan.bytes_across_nodes) add(bytes, fewer.bytes_across_nodes[kind]);
  for (auto& [operation, cost] : plan.operations) {
    const OperationCost without = fewer.operations[operation];
    add(cost.calls, without.calls);
    add(cost.launches, without.launches);
    add(cost.flops, without.flops);
    add(cost.bytes, without.bytes);
    add(cost.seconds, without.seconds);
  }
}

}  // namespace

OperationCost& OperationCost::operator+=(const OperationCost& other) {
  calls += other.calls;
  launches += other.launches;
  flops += other.flops;
  bytes += other.bytes;
  seconds += other.seconds;
  return *this;
}

absl::StatusOr<Plan> PlanRun(const TrainOptions& options, const Machine& machine,
                             std::unique_ptr<LanguageModel> model, PlanTimeline* shown) {
  const Machine on = ForRanks(machine, options);
  DeviceOptions device_options;
  device_options.threads = ThreadsPerRank(options);
  PlannedDevice device(on, device_options);
  PlannedSystem system = SystemOf(options);
  const bool by_nccl = on.is_gpu && options.comm != "local";
  // Planned systems other than Zeroth gather and reduce with NCCL's kernels.
  const bool as_here = by_nccl && options.like == Like::kZeroth;
  using Planned = PlannedCommunicator::Options::Reduction;
  if (as_here) {
    system.comm.reduction =
        options.reduction == Reduction::kTree ? Planned::kTree : Planned::kLibrary;
  }
  system.comm.gathers_by_copy_engine =
      as_here && options.nccl_copy_engine != NcclCopyEngine::kOff && !options.quantized_weights;
  system.comm.calls_together = by_nccl && !system.comm.parts;
  system.comm.reduces_by_exchange =
      options.like == Like::kZeroth && options.reduction == Reduction::kTree;
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<PlannedCommunicator> world,
                          PlannedCommunicator::CreateWorld(on, options.world_size, 0, system.comm));
  const double flops_per_token = model->FlopsPerToken(options.seq_len);
  const int64_t vocab = model->vocab_size();

  Plan plan;
  Timeline timeline;
  TrainerOptions trainer_options = TrainerOptionsFor(options, &timeline);
  trainer_options.kernels = options.kernel_options();
  // Recording a step replays the same work.
  trainer_options.record_steps = false;
  if (options.muon_precision == MuonPrecision::kAuto) {
    trainer_options.optimizer_options.muon.precision =
        on.is_gpu ? DType::kBFloat16 : DType::kFloat32;
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank,
                          Rank::Open(*world, device, trainer_options.kernels));
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                          Trainer::Create(*rank, std::move(model), trainer_options));
  if (!options.teacher.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> teacher,
                            PlanTeacher(*rank, options, &timeline));
    ZEROTH_RETURN_IF_ERROR_WITH(trainer->SetTeacher(std::move(teacher)),
                                absl::StrCat("--teacher=", options.teacher));
  }
  const Sharding& sharding = trainer->sharding();
  LearnUnits(sharding, system);
  const int64_t shards =
      LateGradientShardBytes(system, options, AccumulatesFullGradients(options), sharding);
  device.set_unfused_loss(UnfusedLossOf(system, options, sharding));
  // A timeline shows all micro-batches, and in a deterministic batch more of them keep more partial
  // sums.
  const bool plans_all = shown != nullptr || options.deterministic_batch > 0;
  const int64_t planned =
      plans_all ? options.grad_accum : std::min(options.grad_accum, kMicroBatches);
  ZEROTH_ASSIGN_OR_RETURN(const Batch batch, EmptyBatch(options));
  const std::vector<Batch> batches(static_cast<size_t>(planned), batch);
  WorkLedger& ledger = device.ledger();
  OperationCounter operations(ledger, trainer->kernels());
  PlannedAllocator::MemorySnapshot peak;
  for (int step = 0; step < kSteps; ++step) {
    const bool is_last = step == kSteps - 1;
    ledger.Clear();
    if (is_last && (shown != nullptr || system.backward_in_one)) {
      device.allocator().RecordSnapshots();
    }
    timeline.set_recording(true);
    ZEROTH_RETURN_IF_ERROR(trainer->Step(batches, options.peak_lr()).status());
    timeline.set_recording(false);
    ledger.Run();
    plan.operations = operations.Take();
    ZEROTH_ASSIGN_OR_RETURN(std::vector<Timeline::Span> spans, timeline.Take());
    peak = device.allocator().peak();
    if (peak.epoch == ledger.epoch()) plan.moment = MomentOf(ledger, peak.entry, spans);
    if (!is_last) continue;
    std::vector<PlannedAllocator::MemorySnapshot> snapshots = device.allocator().snapshots();
    if (system.backward_in_one) {
      const auto* const end = MergeBackwardSnapshots(options, sharding, vocab, snapshots);
      const auto highest =
          std::max_element(snapshots.begin(), snapshots.end(),
                           [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
      peak = *highest;
      plan.moment =
          &*highest == end ? "the end of the backward" : MomentOf(ledger, peak.entry, spans);
    }
    if (shown == nullptr) continue;
    shown->memory = MemoryOverTime(ledger, snapshots);
    shown->spans = std::move(spans);
  }
  plan.memory_peak_bytes = peak.bytes;
  plan.memory = peak.categories;
  AddInputs(options.grad_accum - planned, batch, plan);
  if (AccumulatesFullGradients(options)) {
    // Reduced shards replace the larger full sums, so they are not live at the peak.
    constexpr auto kGradients = static_cast<size_t>(MemoryCategory::kGradients);
    plan.memory_peak_bytes -= shards;
    plan.memory[kGradients] -= shards;
    if (shown != nullptr) {
      for (Timeline::MemorySample& sample : shown->memory) {
        int64_t& gradients = sample.bytes[kGradients];
        gradients -= std::clamp<int64_t>(gradients - shards, 0, shards);
      }
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(const int64_t asked, ParseByteCount(options.memory_limit));
  plan.memory_limit_bytes = static_cast<int64_t>(on.memory_bytes - on.reserved_bytes);
  if (asked > 0) plan.memory_limit_bytes = std::min(asked, plan.memory_limit_bytes);
  // If micro-batches accumulate in the shards, the peak includes these already.
  const bool beside = options.grad_accum == 1 || AccumulatesFullGradients(options);
  plan.memory_reserved_bytes =
      plan.memory_peak_bytes + (beside ? shards : 0) + system.reserved_unused_bytes;
  plan.fits = plan.memory_reserved_bytes <= plan.memory_limit_bytes;
  ReadTimes(ledger, plan);
  if (planned < options.grad_accum) {
    ledger.Clear();
    ZEROTH_RETURN_IF_ERROR(
        trainer->Step(absl::MakeConstSpan(batches).subspan(1), options.peak_lr()).status());
    ledger.Run();
    Plan fewer;
    fewer.operations = operations.Take();
    ReadTimes(ledger, fewer);
    AddMicroBatches(options.grad_accum - planned, std::move(fewer), plan);
  }
  const auto tokens =
      static_cast<double>(options.batch_size * options.grad_accum * options.seq_len) /
      static_cast<double>(options.tensor_parallel);
  plan.tokens_per_second_per_rank = tokens / plan.step_seconds;
  const double rate =
      device.units() * (options.param_dtype != DType::kFloat32           ? on.bf16_flops
                        : options.fp32_precision == Fp32Precision::kTf32 ? on.tf32_flops
                                                                         : on.fp32_flops);
  plan.flops_per_second_per_rank = plan.tokens_per_second_per_rank * flops_per_token;
  plan.flop_utilization = plan.flops_per_second_per_rank / rate;
  return plan;
}

}  // namespace zeroth
