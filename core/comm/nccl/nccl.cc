// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/nccl/copy_engine.h"
#include "zeroth/core/comm/nccl/nccl_communicator.h"
#include "zeroth/core/comm/nccl/nccl_memory.h"
#include "zeroth/core/comm/nccl/nccl_world.h"
#include "zeroth/core/comm/process/node.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/device/cuda/cuda_status.h"

namespace zeroth {
namespace {

absl::Status CheckOptions(const ProcessEnvironment& environment, const LaunchOptions& options) {
  ZEROTH_RETURN_IF_ERROR(CheckLaunchOptions(options));
  if (options.world_size == 0 || options.world_size == environment.world_size) {
    return absl::OkStatus();
  }
  const std::string started =
      environment.launcher == "none"
          ? "no launcher has started this process, so that it is the only rank; start one process "
            "per GPU by torchrun, mpirun or srun"
          : absl::StrCat(environment.launcher, " has started ", environment.world_size,
                         "; leave the number out, or give that one");
  return InvalidArgument("world_size is ", options.world_size, ", but ", started);
}

// Local rank r uses GPU r. A process that sees a single GPU uses that one.
absl::StatusOr<int> ChooseDevice(const ProcessEnvironment& environment) {
  int devices = 0;
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaGetDeviceCount(&devices));
  if (devices == 1) return 0;
  if (environment.local_rank < devices) return environment.local_rank;
  return FailedPrecondition("rank ", environment.rank, " is process ", environment.local_rank,
                            " of its node (counted from 0), which has ", devices,
                            " GPUs; start at most one process per GPU");
}

// Returns this rank's capabilities, with memory of `device`. `mode` is
// LaunchOptions::nccl_copy_engine.
nccl::RankCapabilities OwnCapabilities(const std::string& mode, int device) {
  // Large enough to be mapped by itself, and still small.
  constexpr size_t kProbeBytes = size_t{1} << 20;
  nccl::RankCapabilities capabilities;
  capabilities.mode = mode;
  capabilities.host = HostName();
  capabilities.boot = BootId();
  capabilities.compiled_version = NCCL_VERSION_CODE;
  // An unknown version stays 0, which no plan accepts.
  static_cast<void>(ncclGetVersion(&capabilities.library_version));
  static_cast<void>(cudaDriverGetVersion(&capabilities.driver_version));
  if (mode == "off") return capabilities;
  nccl::NcclMemory probe(device);
  const absl::StatusOr<void*> data = probe.Allocate(kProbeBytes);
  if (data.ok()) {
    probe.Free(*data, kProbeBytes);
  } else {
    capabilities.memory_error = std::string(data.status().message());
  }
  return capabilities;
}

// Makes the plan for gathers by copy engines from the capabilities of all ranks. Collective.
absl::StatusOr<nccl::CopyEnginePlan> AgreeOnCopyEngines(ProcessWorld& processes,
                                                        const nccl::RankCapabilities& own) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                          processes.Meet(kWorldGroup, own.Serialize()));
  std::vector<nccl::RankCapabilities> ranks;
  for (const std::string& bytes : all) {
    ZEROTH_ASSIGN_OR_RETURN(ranks.emplace_back(), nccl::RankCapabilities::Parse(bytes));
  }
  return nccl::CopyEnginePlan::Make(std::move(ranks));
}

// The rank's NCCL objects. They must stay until all ranks have returned, because other ranks may
// still need this one.
struct Rank {
  std::shared_ptr<nccl::World> world;
  std::unique_ptr<nccl::NcclCommunicator> communicator;
};

absl::Status RunRank(const ProcessEnvironment& environment, const LaunchOptions& options,
                     const std::shared_ptr<ProcessWorld>& processes, const RankMain& rank_main,
                     Rank& rank) {
  ZEROTH_ASSIGN_OR_RETURN(const int device, ChooseDevice(environment));
  ZEROTH_CUDA_RETURN_IF_ERROR(cudaSetDevice(device));
  ZEROTH_ASSIGN_OR_RETURN(
      nccl::CopyEnginePlan copy_engines,
      AgreeOnCopyEngines(*processes, OwnCapabilities(options.nccl_copy_engine, device)));
  ZEROTH_RETURN_IF_ERROR(processes->AnnounceNode());
  rank.world = std::make_shared<nccl::World>(processes, device, options.reduction == "nccl",
                                             std::move(copy_engines));
  ZEROTH_RETURN_IF_ERROR(rank.world->Start());
  absl::StatusOr<std::unique_ptr<nccl::NcclCommunicator>> communicator =
      nccl::NcclCommunicator::CreateWorld(rank.world);
  if (!communicator.ok()) {
    // If the world has broken, its error is the cause of this one.
    const absl::Status broken = processes->StatusAfterHooks();
    return broken.ok() ? communicator.status() : broken;
  }
  rank.communicator = *std::move(communicator);
  return RunRankMain(rank_main, *rank.communicator);
}

}  // namespace

absl::Status RunNcclRank(const ProcessEnvironment& environment, const LaunchOptions& options,
                         const RankMain& rank_main) {
  ZEROTH_RETURN_IF_ERROR(CheckOptions(environment, options));
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<ProcessWorld> processes,
                          ProcessWorld::Join(environment, options, "nccl"));
  Rank rank;
  return processes->Return(RunRank(environment, options, processes, rank_main, rank));
}

namespace {
const LauncherRegistration registration(
    "nccl",
    [](const LaunchOptions& options, const RankMain& rank_main) -> absl::Status {
      ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment environment, ProcessEnvironment::Read());
      return RunNcclRank(environment, options, rank_main);
    },
    []() -> absl::StatusOr<StartedRanks> {
      ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment environment, ProcessEnvironment::Read());
      return StartedRanks{environment.world_size, environment.local_world_size};
    });
}  // namespace

}  // namespace zeroth
