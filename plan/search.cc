// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/plan/search.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/options/trainer_options.h"

namespace zeroth {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

// One alternative to the run's options: flags, with a blank between two.
using Change = std::string;

// Micro-batches of 1, 2, 4, … sequences that divide the sequences of a step.
std::vector<Change> MicroBatchSizes(const TrainOptions& options) {
  const int64_t sequences = options.batch_size * options.grad_accum;
  std::vector<Change> changes;
  for (int64_t size = 1; size <= sequences; size *= 2) {
    // With a deterministic batch the micro-batches decide the bits, so they stay.
    if (options.deterministic_batch > 0 && size != options.batch_size) continue;
    if (sequences % size != 0) continue;
    changes.push_back(absl::StrCat("--batch_size=", size, " --grad_accum=", sequences / size));
  }
  return changes;
}

std::vector<Change> Strategies(const TrainOptions& options, const Machine& machine) {
  std::vector<Change> changes;
  // Strategies without groups must reset the group options of the run.
  const std::string undo =
      absl::StrCat(options.shard_size > 0 ? " --shard_size=0" : "",
                   options.shard_optimizer_over_world ? " --shard_optimizer_over_world=false" : "");
  for (const char* const name : {"no_shard", "shard_optimizer", "shard_grad_op", "full_shard"}) {
    changes.push_back(absl::StrCat("--strategy=", name, undo));
  }
  // Groups of the size that the run asks for, or else of one node.
  const int group = options.shard_size > 0 ? options.shard_size : machine.devices_per_node;
  if (group > 1 && group < options.world_size && options.world_size % group == 0) {
    std::vector<std::string> names = {"hybrid_shard"};
    if (options.shard_size > 0 && options.strategy != names[0]) names.push_back(options.strategy);
    for (const std::string& name : names) {
      changes.push_back(absl::StrCat("--strategy=", name, " --shard_size=", group));
    }
  }
  return changes;
}

std::vector<Change> Checkpointing() {
  std::vector<Change> changes;
  for (const char* const what : {"none", "elementwise", "attention", "mlp", "selective", "block"}) {
    changes.push_back(absl::StrCat("--activation_checkpointing=", what));
  }
  return changes;
}

std::vector<Change> OtherState(const TrainOptions& options) {
  std::vector<Change> changes;
  if (options.optimizer_state_dtype == DType::kFloat32) changes = {"--optimizer_state_dtype=bf16"};
  if (options.offload == "none" && options.optimizer != "muon") {
    changes.insert(changes.end(), {"--offload=optimizer", "--offload=all"});
  }
  return changes;
}

absl::Status Make(const Change& change, TrainOptions& options) {
  for (absl::string_view flag : absl::StrSplit(change, ' ')) {
    absl::ConsumePrefix(&flag, "--");
    const std::pair<absl::string_view, absl::string_view> set = absl::StrSplit(flag, '=');
    ZEROTH_RETURN_IF_ERROR(SetOption(*FindOption(set.first), set.second, options));
  }
  return absl::OkStatus();
}

// Returns nullopt if the trainer refuses these options.
absl::StatusOr<std::optional<PlannedRun>> Try(const TrainOptions& options, const Machine& machine,
                                              const ModelBuilder& build,
                                              const std::vector<Change>& changes) {
  PlannedRun run{.change = absl::StrJoin(changes, " "), .options = options, .plan = {}};
  ZEROTH_RETURN_IF_ERROR(Make(run.change, run.options));
  if (!Validate(run.options).ok() || !CheckParallelism(run.options).ok()) {
    return std::optional<PlannedRun>();
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, build(std::nullopt));
  absl::StatusOr<Plan> plan = PlanRun(run.options, machine, std::move(model));
  if (absl::IsInvalidArgument(plan.status()) || absl::IsUnimplemented(plan.status())) {
    return std::optional<PlannedRun>();
  }
  ZEROTH_RETURN_IF_ERROR(plan.status());
  run.plan = *std::move(plan);
  return std::optional<PlannedRun>(std::move(run));
}

bool IsBetter(const PlannedRun& a, const PlannedRun& b) {
  if (a.plan.fits != b.plan.fits) return a.plan.fits;
  if (!a.plan.fits) return a.plan.memory_reserved_bytes < b.plan.memory_reserved_bytes;
  return a.plan.tokens_per_second_per_rank > b.plan.tokens_per_second_per_rank;
}

// Limits of LargestThatFits: a plan allocates a micro-batch's tokens and builds every layer.
constexpr int64_t kMostTokens = int64_t{1} << 26;
constexpr int64_t kMostLayers = int64_t{1} << 12;

// The quantity that LargestThatFits maximizes.
struct Direction {
  const char* flag;  // sets it; empty: the model's configuration does
  int64_t step = 1;  // values are multiples of it
  int64_t most = 0;
  std::string bound;  // the reason for `most`
};

absl::StatusOr<Direction> DirectionOf(const std::string& what, const TrainOptions& options,
                                      const ModelBuilder& build) {
  const std::string asked = absl::StrCat("--largest=", what);
  if (what == "batch") {
    if (options.global_batch_size > 0) {
      return InvalidArgument(
          asked, " with --global_batch_size=", options.global_batch_size,
          ": the sequences of a micro-batch follow from that; leave one of the two out");
    }
    return Direction{"batch_size", 1, std::max<int64_t>(1, kMostTokens / options.seq_len),
                     "more are not tried"};
  }
  if (what == "sequence") {
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, build(std::nullopt));
    const int64_t step = options.sequence_parallel ? options.tensor_parallel : 1;
    const int64_t positions = model->max_seq_len();
    const int64_t most = std::min(positions, kMostTokens / options.batch_size);
    return Direction{"seq_len", step, most / step * step,
                     most == positions ? "the model has no more positions" : "more are not tried"};
  }
  if (what == "layers") {
    if (!options.init_from.empty()) {
      return InvalidArgument(asked, " with --init_from=", options.init_from,
                             ": its files have the layers that they have; name a --model");
    }
    return Direction{"", 1, kMostLayers, "more are not tried"};
  }
  return InvalidArgument(asked, ": expected batch, sequence or layers");
}

// Plans the run with this value of the quantity.
absl::StatusOr<LargestPlan> PlanWith(const Direction& direction, int64_t value,
                                     const TrainOptions& options, const Machine& machine,
                                     const ModelBuilder& build) {
  const bool is_flag = *direction.flag != '\0';
  LargestPlan largest;
  largest.value = value;
  largest.change = is_flag ? absl::StrCat("--", direction.flag, "=", value)
                           : absl::StrCat(value, value == 1 ? " layer" : " layers");
  largest.options = options;
  if (is_flag) ZEROTH_RETURN_IF_ERROR(Make(largest.change, largest.options));
  ZEROTH_RETURN_IF_ERROR(Validate(largest.options));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                          build(is_flag ? std::nullopt : std::optional<int64_t>(value)));
  for (const Parameter* parameter : StoredParameters(*model)) {
    largest.parameters += parameter->global_numel();
  }
  ZEROTH_ASSIGN_OR_RETURN(largest.plan, PlanRun(largest.options, machine, std::move(model)));
  return largest;
}

}  // namespace

absl::StatusOr<std::vector<PlannedRun>> SearchPlans(const TrainOptions& options,
                                                    const Machine& machine,
                                                    const ModelBuilder& build) {
  std::vector<PlannedRun> runs;
  for (const Change& strategy : Strategies(options, machine)) {
    for (const Change& checkpointing : Checkpointing()) {
      for (const Change& micro_batch : MicroBatchSizes(options)) {
        ZEROTH_ASSIGN_OR_RETURN(
            std::optional<PlannedRun> run,
            Try(options, machine, build, {strategy, checkpointing, micro_batch}));
        if (run.has_value()) runs.push_back(*std::move(run));
      }
    }
  }
  std::stable_sort(runs.begin(), runs.end(), IsBetter);
  return runs;
}

absl::StatusOr<std::vector<PlannedRun>> CheapestThatFit(const TrainOptions& options,
                                                        const Machine& machine,
                                                        const ModelBuilder& build, size_t most,
                                                        const StopSearch& stop) {
  const std::vector<std::vector<Change>> kinds = {Strategies(options, machine), Checkpointing(),
                                                  MicroBatchSizes(options), OtherState(options)};
  std::vector<PlannedRun> fitting;
  const auto consider = [&](const std::vector<Change>& changes) -> absl::Status {
    if (stop()) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(std::optional<PlannedRun> run, Try(options, machine, build, changes));
    if (run.has_value() && run->plan.fits) fitting.push_back(*std::move(run));
    return absl::OkStatus();
  };
  for (const std::vector<Change>& kind : kinds) {
    for (const Change& change : kind) ZEROTH_RETURN_IF_ERROR(consider({change}));
  }
  for (size_t i = 0; i < kinds.size() && fitting.empty(); ++i) {
    for (size_t j = i + 1; j < kinds.size(); ++j) {
      for (const Change& first : kinds[i]) {
        for (const Change& second : kinds[j]) {
          ZEROTH_RETURN_IF_ERROR(consider({first, second}));
        }
      }
    }
  }
  std::stable_sort(fitting.begin(), fitting.end(), IsBetter);
  if (fitting.size() > most) fitting.resize(most);
  return fitting;
}

std::string SearchText(const std::vector<PlannedRun>& runs, size_t most) {
  std::string text = absl::StrFormat("%12s %10s %12s %6s  %s\n", "tokens/s", "step s", "needs MiB",
                                     "fits", "flags");
  for (size_t i = 0; i < std::min(most, runs.size()); ++i) {
    const Plan& plan = runs[i].plan;
    absl::StrAppendFormat(&text, "%12.1f %10.4g %12.1f %6s  %s\n", plan.tokens_per_second_per_rank,
                          plan.step_seconds, static_cast<double>(plan.memory_reserved_bytes) / kMiB,
                          plan.fits ? "yes" : "no", runs[i].change);
  }
  if (runs.size() > most) absl::StrAppend(&text, runs.size() - most, " more were tried\n");
  return text;
}

std::string CheapestText(const std::vector<PlannedRun>& runs, const Plan& asked) {
  if (runs.empty()) {
    return "to fit    no change of strategy, checkpointing, micro-batch or state is enough: take "
           "more ranks, a larger machine or a smaller model\n";
  }
  std::string text = "to fit    the fastest changes:\n";
  for (const PlannedRun& run : runs) {
    const double saved =
        static_cast<double>(asked.memory_reserved_bytes - run.plan.memory_reserved_bytes) / kMiB;
    absl::StrAppendFormat(&text, "  %s: %.1f MiB less, %.4g s a step\n", run.change, saved,
                          run.plan.step_seconds);
  }
  return text;
}

absl::StatusOr<std::string> TextOfChanges(const TrainOptions& options, const Machine& machine,
                                          const ModelBuilder& build, const StopSearch& stop) {
  constexpr size_t kChanges = 3;
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, build(std::nullopt));
  ZEROTH_ASSIGN_OR_RETURN(const Plan asked, PlanRun(options, machine, std::move(model)));
  if (asked.fits) {
    return absl::StrFormat(
        "to fit    a step of this run needs %.1f MiB, and a rank may have %.1f by its plan: others "
        "have the rest, or something besides steps needs more\n",
        static_cast<double>(asked.memory_reserved_bytes) / kMiB,
        static_cast<double>(asked.memory_limit_bytes) / kMiB);
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<PlannedRun> cheapest,
                          CheapestThatFit(options, machine, build, kChanges, stop));
  if (!stop()) return CheapestText(cheapest, asked);
  return absl::StrCat(cheapest.empty() ? "to fit    nothing has been found so far\n"
                                       : CheapestText(cheapest, asked),
                      "  The search ended before it had tried all: //tools/plan, with the same "
                      "flags, tries the rest.\n");
}

absl::StatusOr<LargestPlan> LargestThatFits(const std::string& what, const TrainOptions& options,
                                            const Machine& machine, const ModelBuilder& build) {
  ZEROTH_ASSIGN_OR_RETURN(const Direction direction, DirectionOf(what, options, build));
  const auto plan_with = [&](int64_t steps) {
    return PlanWith(direction, steps * direction.step, options, machine, build);
  };
  ZEROTH_ASSIGN_OR_RETURN(LargestPlan best, plan_with(1));
  if (!best.plan.fits) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "--largest=%s: not even %s fits: it takes %.1f MiB of a rank, which may have "
        "%.1f; without --largest the plan says what would make it fit",
        what, best.change, static_cast<double>(best.plan.memory_reserved_bytes) / kMiB,
        static_cast<double>(best.plan.memory_limit_bytes) / kMiB));
  }
  // In multiples of direction.step: `low` fits, and `high` does not.
  const int64_t most = std::max<int64_t>(1, direction.most / direction.step);
  int64_t low = 1;
  std::optional<int64_t> high;
  while (low < most && (!high.has_value() || *high - low > 1)) {
    const int64_t middle = high.has_value() ? low + (*high - low) / 2 : std::min(2 * low, most);
    ZEROTH_ASSIGN_OR_RETURN(LargestPlan tried, plan_with(middle));
    if (tried.plan.fits) {
      low = middle;
      best = std::move(tried);
    } else {
      high = middle;
    }
  }
  best.next = best.value + direction.step;
  if (!high.has_value()) best.bound = direction.bound;
  return best;
}

std::string LargestText(const LargestPlan& largest) {
  return absl::StrFormat(
      "largest   %s, a model of %.4g parameters: %s\n", largest.change,
      static_cast<double>(largest.parameters),
      largest.bound.empty() ? absl::StrCat(largest.next, " would not fit") : largest.bound);
}

}  // namespace zeroth
