// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_plan.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/plan/machine_file.h"
#include "zeroth/plan/machine_measure.h"
#include "zeroth/plan/plan.h"
#include "zeroth/plan/search.h"
#include "zeroth/train/interrupt.h"

namespace zeroth {
namespace {

absl::StatusOr<Machine> MachineOf(const TrainOptions& options) {
  const bool on_gpu = options.device != TrainOptions().device;
  // This CPU has no name, and is measured.
  if (!on_gpu || !options.machine.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(Machine machine, OpenMachine(options.machine));
    if (machine.is_gpu == on_gpu) return machine;
  }
  return InvalidArgument(
      "a plan with --device=", options.device, " and --machine=", options.machine,
      ": one is a GPU and the other is not; make them agree, or ask //tools/plan about a run on "
      "another machine");
}

// Bytes that processes here can still get: the system's available memory, or less if a cgroup
// limits this process. nullopt if neither is known.
std::optional<double> FreeMemory() {
  std::optional<double> free;
  const auto number_in = [](const char* path, absl::string_view key) -> std::optional<double> {
    // Not ReadFile: the kernel says that these files have 0 bytes.
    std::ifstream file(path);
    for (std::string text; std::getline(file, text);) {
      absl::string_view line = text;
      double value = 0;
      if (!absl::ConsumePrefix(&line, key)) continue;
      absl::ConsumeSuffix(&line, "kB");
      if (absl::SimpleAtod(absl::StripAsciiWhitespace(line), &value)) return value;
    }
    return std::nullopt;
  };
  if (const auto available = number_in("/proc/meminfo", "MemAvailable:")) free = *available * 1024;
  const auto most = number_in("/sys/fs/cgroup/memory.max", "");
  const auto used = number_in("/sys/fs/cgroup/memory.current", "");
  if (most.has_value() && used.has_value()) {
    free = std::min(free.value_or(*most), std::max(0.0, *most - *used));
  }
  return free;
}

}  // namespace

absl::Status PrintPlan(const RunSpec& spec, const ModelSource& source) {
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment ranks, ProcessEnvironment::ReadRanks());
  if (!spec.ranks_are_threads && ranks.rank != 0) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Machine machine, MachineOf(spec.options));
  // A planned device records nothing.
  if (spec.options.cuda_graphs &&
      (!machine.is_gpu || (spec.ranks_are_threads && spec.options.world_size > 1))) {
    return Unimplemented(kCudaGraphsNeed);
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, source.Build());
  ZEROTH_ASSIGN_OR_RETURN(const Plan plan, PlanRun(spec.options, machine, std::move(model)));
  std::fputs(PlanText(plan, spec.options, machine).c_str(), stdout);
  return absl::OkStatus();
}

std::string MemoryWarning(const RunSpec& spec, const ModelSource& source) {
  const TrainOptions& options = spec.options;
  const absl::StatusOr<ProcessEnvironment> process = ProcessEnvironment::ReadRanks();
  // An optimizer of another project may compute on the host, and a planned device has no memory.
  if (options.optimizer != "adamw" && options.optimizer != "muon") return "";
  // With a limit, a run that needs more ends with an error and not without a message.
  const absl::StatusOr<int64_t> limit = ParseByteCount(options.memory_limit);
  if (options.device != TrainOptions().device || !limit.ok() || *limit > 0 ||
      (!spec.ranks_are_threads && process.ok() && process->local_rank != 0)) {
    return "";
  }
  // A plan of memory alone needs no rates.
  Machine machine = LocalCpu();
  for (double* const rate :
       {&machine.fp32_flops, &machine.tf32_flops, &machine.bf16_flops, &machine.memory_bandwidth,
        &machine.link_bandwidth, &machine.network_bandwidth, &machine.host_bandwidth}) {
    *rate = 1e9;
  }
  absl::StatusOr<std::unique_ptr<LanguageModel>> model = source.Build();
  if (!model.ok()) return "";
  const absl::StatusOr<Plan> plan = PlanRun(options, machine, *std::move(model));
  const std::optional<double> free = FreeMemory();
  if (!plan.ok() || !free.has_value()) return "";
  const int ranks =
      spec.ranks_are_threads ? options.world_size : std::max(1, options.local_world_size);
  const double needed = static_cast<double>(plan->memory_peak_bytes) * ranks;
  if (needed <= *free) return "";
  return absl::StrFormat(
      "warning   this run needs %.1f GiB for %d ranks by its plan, and %.1f GiB are free here: the "
      "system may kill it without a message. --dry_run shows the plan; a smaller --batch_size, "
      "--activation_checkpointing=block or fewer ranks need less",
      needed / (1 << 30), ranks, *free / (1 << 30));
}

bool LacksMemory(const absl::Status& status) {
  return absl::IsResourceExhausted(status) && absl::StrContains(status.message(), kCannotAllocate);
}

std::string Remedies(const RunSpec& spec, const ModelSource& source, const absl::Status& lacking) {
  constexpr absl::Duration kSearch = absl::Seconds(15);
  const absl::Time deadline = absl::Now() + kSearch;
  std::fputs(absl::StrCat("out of memory: ", lacking.message(), "\nmemory    looking for at most ",
                          absl::FormatDuration(kSearch), " for changes with which the run fits\n")
                 .c_str(),
             stderr);
  AnnounceOnInterrupt("", "");
  const auto changes = [&spec, &source, deadline]() -> absl::StatusOr<std::string> {
    ZEROTH_ASSIGN_OR_RETURN(const Machine machine, MachineOf(spec.options));
    return TextOfChanges(
        spec.options, machine,
        [&source](std::optional<int64_t> layers) { return source.Build(layers); },
        [deadline] { return absl::Now() >= deadline || Interrupted(); });
  };
  const absl::StatusOr<std::string> found = changes();
  if (found.ok()) return *found;
  return absl::StrCat("  no changes with which the run would fit are known: ",
                      found.status().message());
}

}  // namespace zeroth
