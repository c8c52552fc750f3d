// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Predicts the memory, time and traffic of a rank from the trainer's options and a machine.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/rank.h"
#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/device/timeline.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/options/options.h"
#include "zeroth/plan/machine_file.h"
#include "zeroth/plan/machine_measure.h"
#include "zeroth/plan/plan.h"
#include "zeroth/plan/search.h"
#include "zeroth/train/flags.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/run_spec.h"
#include "zeroth/train/step_trace.h"

namespace zeroth {
namespace {

constexpr size_t kRows = 20;  // printed of a search

std::string Help() {
  return absl::StrCat(
      "plan: says what a run would take, and starts nothing.\n\n"
      "  ./bazelw run //tools/plan -- --model=llama3_8b --world_size=64 --machine=H100 \\\n"
      "      --param_dtype=bf16 --seq_len=8192 --batch_size=1\n\n"
      "It takes the trainer's options (./bazelw run //train -- --help), --data not among those\n"
      "that it needs, and\n\n"
      "  --machine=NAME  (",
      absl::StrJoin(MachineNames(), ", "),
      ", or FILE.toml)\n"
      "      What the run is planned for.\n"
      "  --search\n"
      "      Strategies x checkpointing x micro-batches of the same step, the fastest that fit\n"
      "      first.\n"
      "  --largest=batch|sequence|layers\n"
      "      The most sequences of a micro-batch, tokens of a sequence or layers with which the "
      "run\n"
      "      fits, everything else being as it is.\n"
      "  --save=FOLDER\n"
      "      Also write plan.json, config.toml and trace.json there: tools/report draws memory "
      "over\n"
      "      the step and what traffic hides behind what, and Perfetto opens the trace.\n"
      "  --overwrite\n"
      "      Replace the earlier plan that --save finds, or the file of --measure.\n"
      "  --json\n"
      "      For programs.\n"
      "  --measure=FILE.toml\n"
      "      Measure the machine at hand, and write it to such a file, and nothing else: its "
      "cores\n"
      "      as threads, or with a launcher the ranks that it starts (mpirun -n 8, one for each\n"
      "      core; torchrun with --device=cuda --machine=H100, which says what is not measured).\n"
      "  --show_machine\n"
      "      Print the machine as such a file, and nothing else.\n");
}

absl::Status Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

absl::Status Print(const nlohmann::json& json) { return Print(json.dump(2) + "\n"); }

absl::Status Say(const Plan& plan, const TrainOptions& options, const Machine& machine,
                 const ModelBuilder& build) {
  ZEROTH_RETURN_IF_ERROR(Print(PlanText(plan, options, machine)));
  if (plan.fits) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const std::string changes, TextOfChanges(options, machine, build));
  return Print(changes);
}

absl::Status PrintSearch(const TrainOptions& options, const Machine& machine,
                         const ModelBuilder& build, bool json) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<PlannedRun> runs, SearchPlans(options, machine, build));
  if (!json) return Print(SearchText(runs, kRows));
  nlohmann::json rows = nlohmann::json::array();
  for (const PlannedRun& run : runs) {
    rows.push_back({{"flags", run.change}, {"plan", PlanJson(run.plan)}});
  }
  return Print(rows);
}

absl::Status PrintLargest(const std::string& what, const TrainOptions& options,
                          const Machine& machine, const ModelBuilder& build, bool json) {
  ZEROTH_ASSIGN_OR_RETURN(const LargestPlan largest,
                          LargestThatFits(what, options, machine, build));
  if (json) {
    nlohmann::json text = {{"largest", what},
                           {"value", largest.value},
                           {"change", largest.change},
                           {"bound", largest.bound},
                           {"parameters", largest.parameters},
                           {"plan", PlanJson(largest.plan)}};
    if (largest.bound.empty()) text["next"] = largest.next;
    return Print(text);
  }
  return Print(LargestText(largest) + PlanText(largest.plan, largest.options, machine));
}

bool IsPlan(const std::string& path) {
  const absl::StatusOr<nlohmann::json> json = ReadJsonFile(path);
  return json.ok() && json->is_object() && json->contains("machine") && json->contains("text");
}

// Refuses the folder of a run, because its files have the same names as a plan's. Without
// --overwrite, also refuses the folder of an earlier plan.
absl::Status CheckSave(const std::string& folder, bool overwrite) {
  const std::string plan_file = absl::StrCat(folder, "/plan.json");
  for (const char* const name : {kConfigName, kTraceFile}) {
    if (!IsFile(absl::StrCat(folder, "/", name)) || IsFile(plan_file)) continue;
    return InvalidArgument(
        "--save: ", folder, ": it has the ", name,
        " of a run, which the plan's would replace; expected a folder of the plan's own");
  }
  return CheckOutput("--save", plan_file, overwrite, "a plan", IsPlan);
}

// Writes the plan, its timeline and the options that tools/report reads.
absl::Status SaveInto(const std::string& folder, const Plan& plan, const PlanTimeline& timeline,
                      const TrainOptions& options, const Machine& machine) {
  const std::string plan_file = absl::StrCat(folder, "/plan.json");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return InvalidArgument(folder, ": ", error.message(),
                           "; expected a folder that is there or can be made");
  }
  nlohmann::json json = PlanJson(plan);
  json["machine"] = machine.name;
  json["text"] = PlanText(plan, options, machine);
  ZEROTH_RETURN_IF_ERROR(WriteFileDurably(plan_file, json.dump(2) + "\n"));
  ZEROTH_RETURN_IF_ERROR(WriteFileDurably(
      absl::StrCat(folder, "/", kTraceFile),
      absl::StrCat("{\"traceEvents\": [\n",
                   ChromeTraceEvents(timeline.spans, timeline.memory, 0, 0), "\n]}\n")));
  return WriteConfig(folder, options);
}

// Returns the machine whose values remain where nothing is measured.
absl::StatusOr<Machine> Unmeasured(const TrainOptions& options) {
  const bool is_gpu = options.device != TrainOptions().device;
  const std::string asked = absl::StrCat("--measure with --device=", options.device);
  if (!is_gpu) {
    if (options.machine.empty()) return LocalCpu();
    return InvalidArgument(asked, " and --machine=", options.machine,
                           ": it measures the CPU at hand; leave --machine out");
  }
  if (options.machine.empty()) {
    return InvalidArgument(
        asked,
        ": memory and multiprocessors are not measured; name a machine that has the same "
        "GPUs, as --machine=H100");
  }
  ZEROTH_ASSIGN_OR_RETURN(Machine machine, OpenMachine(options.machine));
  if (!machine.is_gpu) {
    return InvalidArgument(asked, " and --machine=", options.machine, ": that machine has no GPU");
  }
  machine.name = absl::StrCat(machine.name, ", measured");
  return machine;
}

// Measures this machine, and writes it to `path` as a file for --machine. Without a launcher that
// is all cores of this CPU; with one, the ranks that it has started over the back end that
// `options` name, on CPUs or GPUs. A GPU's memory and all else that is not measured are those of
// --machine. InvalidArgument names the missing or superfluous flag; errors of MeasureRanks and of
// writing.
absl::Status MeasureInto(const std::string& path, const TrainOptions& options) {
  if (!absl::EndsWith(path, ".toml")) {
    return InvalidArgument("--measure=", path, ": expected a name that ends in .toml");
  }
  ZEROTH_RETURN_IF_ERROR(
      CheckOutput("--measure", path, options.overwrite, "a machine's file",
                  [](const std::string& file) { return OpenMachine(file).ok(); }));
  ZEROTH_ASSIGN_OR_RETURN(Machine machine, Unmeasured(options));
  TrainOptions started = options;
  ZEROTH_ASSIGN_OR_RETURN(started.comm, ChooseBackEnd(options));
  if (started.comm == "local" && options.world_size > 0) {
    return InvalidArgument(
        "--measure with --world_size=", options.world_size,
        ": without a launcher it measures all cores, or one GPU; leave --world_size out, or start "
        "the ranks by mpirun or torchrun");
  }
  if (started.comm == "local" && machine.is_gpu) started.world_size = 1;
  if (started.comm == "local" && !machine.is_gpu) {
    ZEROTH_ASSIGN_OR_RETURN(machine, MeasureCpu());
    return WriteFileDurably(path, MachineText(machine));
  }
  ZEROTH_RETURN_IF_ERROR(SetWorldSize(started).status());
  RunOptions run;
  run.comm = started.comm;
  run.launch.world_size = started.world_size;
  run.launch.reduction = OptionText("reduction", started);
  run.launch.nccl_copy_engine = OptionText("nccl_copy_engine", started);
  run.rank.device = started.device;
  run.rank.threads = 1;
  const int on_node = started.local_world_size > 0 ? started.local_world_size : started.world_size;
  if (started.local_world_size == 0 && started.world_size > 1) {
    std::fprintf(
        stderr,
        "plan: the launcher does not say how many ranks are on a node; all %d are taken to "
        "be on one, whose links are measured, and no network\n",
        started.world_size);
  }
  return RunRanks(run, [&](Rank& rank) -> absl::Status {
    Machine measured = machine;
    ZEROTH_RETURN_IF_ERROR(MeasureRanks(rank.world(), rank.device(), on_node, measured));
    if (rank.index() > 0) return absl::OkStatus();
    return WriteFileDurably(path, MachineText(measured));
  });
}

absl::Status Main(int argc, char** argv) {
  ZEROTH_RETURN_IF_ERROR(EnterUsersDirectory());
  bool json = false;
  bool search = false;
  bool show_machine = false;
  std::optional<std::string> largest;
  std::optional<std::string> measure;
  std::optional<std::string> save;
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions given,
                          ReadCommandLine(argc, argv, Help(),
                                          {{"json", &json},
                                           {"search", &search},
                                           {"show_machine", &show_machine},
                                           {.name = "largest", .text = &largest},
                                           {.name = "measure", .text = &measure},
                                           {.name = "save", .text = &save}}));
  if (search + show_machine + largest.has_value() + measure.has_value() + save.has_value() > 1) {
    return absl::InvalidArgumentError(
        "--search, --largest, --save, --measure and --show_machine: give only one "
        "of these");
  }
  if (measure.has_value()) return MeasureInto(*measure, given);
  if (save.has_value()) ZEROTH_RETURN_IF_ERROR(CheckSave(*save, given.overwrite));
  // A plan covers all ranks, so only one of a launcher's ranks makes it.
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment ranks, ProcessEnvironment::ReadRanks());
  if (ranks.rank > 0) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Machine machine, OpenMachine(given.machine));
  if (show_machine) return Print(MachineText(machine));
  if (!machine.is_gpu && given.device != TrainOptions().device) {
    return InvalidArgument(
        "--device=", given.device,
        given.machine.empty()
            ? " without --machine, which would plan this CPU; name the machine that has the GPUs, "
              "as --machine=H100, or leave --device out"
            : absl::StrCat(" and --machine=", given.machine,
                           ", which has no GPU; make them agree"));
  }
  ZEROTH_ASSIGN_OR_RETURN(const TrainOptions options, ResolveOnMachine(given, machine.is_gpu));
  ZEROTH_ASSIGN_OR_RETURN(const ModelSource source, ModelSource::Open(options));
  const ModelBuilder build = [&source](std::optional<int64_t> layers) {
    return source.Build(layers);
  };
  if (search) return PrintSearch(options, machine, build, json);
  if (largest.has_value()) return PrintLargest(*largest, options, machine, build, json);
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, build(std::nullopt));
  PlanTimeline timeline;
  ZEROTH_ASSIGN_OR_RETURN(const Plan plan, PlanRun(options, machine, std::move(model),
                                                   save.has_value() ? &timeline : nullptr));
  if (save.has_value()) {
    ZEROTH_RETURN_IF_ERROR_WITH(SaveInto(*save, plan, timeline, options, machine), "--save");
  }
  return json ? Print(PlanJson(plan)) : Say(plan, options, machine, build);
}

}  // namespace
}  // namespace zeroth

int main(int argc, char** argv) {
  return zeroth::RunProgram([&] { return zeroth::Main(argc, argv); });
}
