// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/train/interrupt.h"
#include "zeroth/train/rank_run.h"
#include "zeroth/train/resume.h"
#include "zeroth/train/run_input.h"
#include "zeroth/train/run_plan.h"
#include "zeroth/train/run_spec.h"
#include "zeroth/train/run_store.h"

namespace zeroth {
namespace {

// Checks the files that the run reads and writes, so that errors show before any rank starts.
absl::Status CheckFiles(const RunSpec& spec, const RunInput& input) {
  ZEROTH_RETURN_IF_ERROR(CheckCheckpointFlags(spec.options));
  if (spec.only_evaluates() || spec.options.out.empty()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> model, input.source.Build());
  return CheckOutput(spec, input, *model, spec.options.out);
}

}  // namespace

absl::StatusOr<RunEnd> RunTraining(const TrainOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  AnnounceOnInterrupt(
      "\ninterrupt: the run is still starting; it ends after its first step and saves a "
      "checkpoint. A second interrupt ends it at once and loses nothing.\n",
      "\ninterrupt: ended at once. Lost: nothing, since no step has been made.\n");
  ZEROTH_ASSIGN_OR_RETURN(const RunSpec spec, ResolveRun(options));
  ZEROTH_ASSIGN_OR_RETURN(const RunInput input, OpenInput(spec));
  // The run as a planner sees it, which reads no data.
  RunSpec planned = spec;
  if (input.within_documents) planned.options.attend_within = AttendWithin::kDocument;
  if (spec.options.dry_run) {
    planned.options.steps = input.length.steps;
    planned.options.epochs = 0;
    ZEROTH_RETURN_IF_ERROR(PrintPlan(planned, input.source));
    return RunEnd::kFinished;
  }
  ZEROTH_RETURN_IF_ERROR(CheckFiles(spec, input));
  const std::string warning = MemoryWarning(planned, input.source);
  if (!warning.empty()) std::fputs(absl::StrCat(warning, "\n").c_str(), stdout);
  LaunchOptions launch;
  launch.world_size = spec.options.world_size;
  ZEROTH_ASSIGN_OR_RETURN(launch.timeout, ParseTimeout(spec.options.comm_timeout));
  launch.reduction = OptionText("reduction", spec.options);
  launch.nccl_copy_engine = OptionText("nccl_copy_engine", spec.options);
  std::string remedies;
  RunEnd end = RunEnd::kFinished;
  const absl::Status status =
      LauncherRegistry::Launch(spec.options.comm, launch, [&](Communicator& world) {
        absl::Status result;
        {
          RankRun run(spec, input, world, begin);
          result = run.Run();
          if (!spec.ranks_are_threads || world.rank() == 0) end = run.end();
          // All ranks get this error, instead of errors from the communicators that `run` destroys.
          if (LacksMemory(result)) world.Abort(result);
        }
        // A launcher may kill rank 0's process once another rank has exited, so rank 0 searches for
        // remedies before it returns. Ranks that are threads end first, which frees their memory.
        if (!spec.ranks_are_threads && world.rank() == 0 && LacksMemory(result)) {
          remedies = Remedies(planned, input.source, result);
        }
        return result;
      });
  if (status.ok()) return end;
  if (!LacksMemory(status)) return status;
  if (spec.ranks_are_threads) remedies = Remedies(planned, input.source, status);
  if (remedies.empty()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), "\n", remedies));
}

}  // namespace zeroth
