// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/back_end.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr char kAuto[] = "auto";
constexpr char kLocal[] = "local";

}  // namespace

absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options,
                                          const ProcessEnvironment& ranks) {
  const bool is_auto = options.comm == kAuto;
  if (!is_auto && options.comm != kLocal) return options.comm;
  // Of one process, ranks can only be threads.
  if (!ranks.HasLauncher() || ranks.world_size == 1) return kLocal;
  const std::string started = absl::StrCat(ranks.launcher, " has started ", ranks.world_size,
                                           " processes, of which this is number ", ranks.rank);
  const bool on_gpus = options.device != TrainOptions().device;
  const bool no_mpi = ranks.launcher == "torchrun";
  if (is_auto && on_gpus) return "nccl";
  if (is_auto && !no_mpi) return "mpi";
  const std::string advice =
      on_gpus  ? "take --comm=nccl, or leave --comm out"
      : no_mpi ? "start them by mpirun or srun, for --comm=mpi, or train with --device=cuda, for "
                 "--comm=nccl"
               : "take --comm=mpi, or leave --comm out";
  return absl::InvalidArgumentError(
      absl::StrCat("--comm=", options.comm, ": ", started,
                   is_auto ? ", and on CPUs ranks that it starts cannot talk to each other; "
                           : ", and each would be a whole run of its own, all in one --out; ",
                   advice));
}

absl::StatusOr<std::string> ChooseBackEnd(const TrainOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment ranks, ProcessEnvironment::ReadRanks());
  return ChooseBackEnd(options, ranks);
}

}  // namespace zeroth
