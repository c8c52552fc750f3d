// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/run_spec.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/launcher.h"
#include "zeroth/core/device/device.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/optim/lr_schedule.h"
#include "zeroth/optim/optimizer.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/options/trainer_options.h"
#include "zeroth/train/gpu_libraries.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/run_directory.h"

namespace zeroth {
namespace {

// Sets the length of sequences and the batch of each rank, once the number of ranks is known, and
// makes the checks that need it.
absl::StatusOr<TrainOptions> OnKnownRanks(TrainOptions options) {
  options.seq_len = SeqLenOf(options);
  ZEROTH_RETURN_IF_ERROR(Validate(options));  // again, because of the rules about the length
  ZEROTH_ASSIGN_OR_RETURN(options, WithSharesOfRanks(std::move(options)));
  ZEROTH_RETURN_IF_ERROR_WITH(OptimizerRegistry::Check(options.optimizer), "--optimizer");
  ZEROTH_RETURN_IF_ERROR_WITH(LrSchedule::Check(options.lr_schedule), "--lr_schedule");
  ZEROTH_RETURN_IF_ERROR(CheckParallelism(options));
  return options;
}

TrainOptions ConfigOf(TrainOptions options) {
  const TrainOptions defaults;
  if (options.global_batch_size > 0) options.batch_size = defaults.batch_size;
  if (options.deterministic_batch > 0) options.grad_accum = defaults.grad_accum;
  // Repeating a run by its config.toml must not silently remove another run, or this one.
  options.overwrite = false;
  return options;
}

}  // namespace

absl::StatusOr<bool> SetWorldSize(TrainOptions& options) {
  const absl::StatusOr<std::optional<StartedRanks>> found = LauncherRegistry::Started(options.comm);
  if (!found.ok()) return WithBuildHint(found.status());
  if (const std::optional<StartedRanks>& started = *found; started.has_value()) {
    if (options.world_size != 0 && options.world_size != started->world_size) {
      return InvalidArgument(
          "--world_size=", options.world_size, ", but the environment says that ",
          started->world_size, " ranks have been started; leave the flag out, and have the ",
          "launcher start as many as you want (mpirun -n ", options.world_size, ")");
    }
    options.world_size = started->world_size;
    options.local_world_size = started->local_world_size;
    return false;
  }
  if (options.world_size == 0) options.world_size = kDefaultWorldSize;
  // If this process runs all ranks, a missing device shows here, before any rank starts.
  ZEROTH_RETURN_IF_ERROR(
      WithBuildHint(DeviceRegistry::Create(options.device, DeviceOptions()).status()));
  return true;
}

absl::StatusOr<RunSpec> ResolveRun(const TrainOptions& given) {
  if (!given.dry_run && given.like != TrainOptions().like) {
    return InvalidArgument("--like=", OptionText("like", given),
                           " needs --dry_run: a run has the buffers of this trainer");
  }
  RunSpec spec;
  ZEROTH_ASSIGN_OR_RETURN(TrainOptions options, WithInitAdapter(given));
  ZEROTH_ASSIGN_OR_RETURN(options.comm, ChooseBackEnd(options));
  ZEROTH_ASSIGN_OR_RETURN(options.out, KnownRunDirectory(options));
  ZEROTH_RETURN_IF_ERROR(Validate(options));
  if (!options.dry_run && options.resume.empty()) {
    ZEROTH_RETURN_IF_ERROR(ExpectWeightsToQuantize(options));
  }
  const bool writes = !options.dry_run && options.steps > 0;
  if (writes) ZEROTH_RETURN_IF_ERROR(CheckOutIsOutsideData(options));
  ZEROTH_ASSIGN_OR_RETURN(spec.ranks_are_threads, SetWorldSize(options));
  options.threads_per_rank = ThreadsPerRank(options);
  spec.config = ConfigOf(options);
  ZEROTH_ASSIGN_OR_RETURN(spec.options, OnKnownRanks(std::move(options)));
  const std::string& device = spec.options.device;
  if (const absl::Status status = KernelRegistry::Check(device, spec.options.kernel_options());
      !status.ok()) {
    return Annotate(WithBuildHint(status), absl::StrCat("--device=", device));
  }
  if (!spec.options.dry_run && spec.only_evaluates() && spec.options.out.empty() &&
      spec.options.resume == "auto") {
    return absl::NotFoundError(
        absl::StrCat("--resume=auto: there is no ", kRunsDirectory, "/", kLatestRun,
                     " to evaluate; name a checkpoint, or its run by --out"));
  }
  return spec;
}

absl::Status ExpectWeightsToQuantize(const TrainOptions& options) {
  if (options.base_dtype == BaseDtype::kNone || !options.init_from.empty()) {
    return absl::OkStatus();
  }
  return InvalidArgument("--base_dtype=", OptionText("base_dtype", options),
                         " needs --init_from, the weights that are quantized, or --resume=RUN of a "
                         "run with quantized weights");
}

absl::StatusOr<TrainOptions> ResolveOnMachine(const TrainOptions& given, bool is_gpu) {
  ZEROTH_ASSIGN_OR_RETURN(TrainOptions options, WithInitAdapter(given));
  if (options.data.empty()) options.data = "none";
  if (is_gpu) options.device = "cuda";
  if (options.comm == "auto") options.comm = is_gpu ? "nccl" : "local";
  if (options.world_size == 0) options.world_size = kDefaultWorldSize;
  ZEROTH_RETURN_IF_ERROR(Validate(options));
  return OnKnownRanks(std::move(options));
}

absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options,
                                          const ProcessEnvironment& ranks) {
  const bool is_auto = options.comm == "auto";
  if (!is_auto && options.comm != "local") return options.comm;
  // Ranks of a single process can only be threads.
  if (!ranks.HasLauncher() || ranks.world_size == 1) return "local";
  const std::string started = absl::StrCat(ranks.launcher, " has started ", ranks.world_size,
                                           " processes, of which this is number ", ranks.rank);
  const bool on_gpus = options.device != TrainOptions().device;
  const bool no_mpi = ranks.launcher == "torchrun";
  if (is_auto && on_gpus) return "nccl";
  if (is_auto && !no_mpi) return "mpi";
  const std::string advice =
      on_gpus  ? "use --comm=nccl, or leave --comm out"
      : no_mpi ? "start them by mpirun or srun, for --comm=mpi, or train with --device=cuda, for "
                 "--comm=nccl"
               : "use --comm=mpi, or leave --comm out";
  return InvalidArgument("--comm=", options.comm, ": ", started,
                         is_auto ? ", and on CPUs ranks that it starts cannot talk to each other; "
                                 : ", and each would start a separate run in the same --out; ",
                         advice);
}

absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment ranks, ProcessEnvironment::ReadRanks());
  return ChooseBackEnd(options, ranks);
}

}  // namespace zeroth
