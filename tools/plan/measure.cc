// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/plan/measure.h"

#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/api/rank.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/planned/machine.h"
#include "zeroth/train/job.h"
#include "zeroth/train/machine_file.h"
#include "zeroth/train/machine_measure.h"

namespace zeroth {
namespace {

// What the measured numbers replace some of.
absl::StatusOr<Machine> Unmeasured(const TrainOptions& options) {
  const bool is_gpu = options.device != TrainOptions().device;
  const std::string asked = absl::StrCat("--measure with --device=", options.device);
  if (!is_gpu && options.machine.empty()) return CpuAtHand();
  if (!is_gpu) {
    return absl::InvalidArgumentError(
        absl::StrCat(asked, " and --machine=", options.machine,
                     ": it measures the CPU at hand; leave --machine out"));
  }
  if (options.machine.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        asked,
        ": memory and multiprocessors are not measured; name a machine that has the same "
        "GPUs, as --machine=H100"));
  }
  ZEROTH_ASSIGN_OR_RETURN(Machine machine, OpenMachine(options.machine));
  if (!machine.is_gpu) {
    return absl::InvalidArgumentError(
        absl::StrCat(asked, " and --machine=", options.machine, ": that is no GPU"));
  }
  machine.name = absl::StrCat(machine.name, ", measured");
  return machine;
}

}  // namespace

absl::Status MeasureInto(const std::string& path, const TrainOptions& options) {
  if (!absl::EndsWith(path, ".toml")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--measure=", path, ": expected a name that ends in .toml"));
  }
  ZEROTH_ASSIGN_OR_RETURN(Machine machine, Unmeasured(options));
  TrainOptions started = options;
  ZEROTH_ASSIGN_OR_RETURN(started.comm, ChooseBackEnd(options));
  if (started.comm == "local" && options.world_size > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--measure with --world_size=", options.world_size,
        ": without a launcher it measures all cores, or one GPU; leave --world_size out, or start "
        "the ranks by mpirun or torchrun"));
  }
  if (started.comm == "local" && machine.is_gpu) started.world_size = 1;
  if (started.comm == "local" && !machine.is_gpu) {
    ZEROTH_ASSIGN_OR_RETURN(machine, MeasureCpu());
    return WriteFileDurably(path, MachineText(machine));
  }
  ZEROTH_ASSIGN_OR_RETURN(started, WithWorldSize(started));
  RunOptions run;
  run.comm = started.comm;
  run.launch.world_size = started.world_size;
  run.launch.reduction = started.reduction;
  run.launch.nccl_copy_engine = started.nccl_copy_engine;
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

}  // namespace zeroth
