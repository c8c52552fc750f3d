// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/rank.h"

#include <algorithm>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

int DefaultThreadsPerRank(int ranks_on_machine) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / std::max(1, ranks_on_machine));
}

absl::StatusOr<std::unique_ptr<Rank>> Rank::Open(Communicator& world, const RankOptions& options) {
  if (options.threads < 0 || options.ranks_on_machine < 0) {
    return InvalidArgument("rank: threads = ", options.threads,
                           " and ranks_on_machine = ", options.ranks_on_machine,
                           ", expected positive numbers, or 0 for the default");
  }
  DeviceOptions device_options;
  device_options.index = world.device_index();
  device_options.transport_memory = world.memory_source();
  const int sharing = options.ranks_on_machine > 0 ? options.ranks_on_machine : world.size();
  device_options.threads = options.threads > 0 ? options.threads : DefaultThreadsPerRank(sharing);
  device_options.bits_of_any_team = options.bits_of_any_team;
  device_options.memory_limit = options.memory_limit;
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                          DeviceRegistry::Create(options.device, device_options));
  device->BindThread();
  Device& opened = *device;
  std::unique_ptr<Rank> rank(new Rank(world, std::move(device), opened));
  ZEROTH_ASSIGN_OR_RETURN(rank->kernels_,
                          KernelRegistry::Create(opened, opened.compute_stream(), options.kernels));
  return rank;
}

absl::StatusOr<std::unique_ptr<Rank>> Rank::Open(Communicator& world, Device& device,
                                                 const KernelOptions& options) {
  std::unique_ptr<Rank> rank(new Rank(world, nullptr, device));
  ZEROTH_ASSIGN_OR_RETURN(rank->kernels_,
                          KernelRegistry::Create(device, device.compute_stream(), options));
  return rank;
}

absl::Status RunRanks(const RunOptions& options, const std::function<absl::Status(Rank&)>& train) {
  RankOptions rank_options = options.rank;
  if (rank_options.ranks_on_machine == 0) {
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<StartedRanks> started,
                            LauncherRegistry::Started(options.comm));
    if (started.has_value()) rank_options.ranks_on_machine = started->local_world_size;
  }
  return LauncherRegistry::Launch(
      options.comm, options.launch, [&](Communicator& world) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<Rank> rank, Rank::Open(world, rank_options));
        return train(*rank);
      });
}

int RunRanks(int world_size, const std::function<absl::Status(Rank&)>& train) {
  RunOptions options;
  options.launch.world_size = world_size;
  const absl::Status status = RunRanks(options, train);
  if (status.ok()) return 0;
  std::cerr << "error: " << status.message() << "\n";
  return 1;
}

}  // namespace zeroth
