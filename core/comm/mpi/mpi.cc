// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/mpi/mpi_address.h"
#include "zeroth/core/comm/mpi/mpi_channel.h"
#include "zeroth/core/comm/mpi/mpi_communicator.h"
#include "zeroth/core/comm/mpi/mpi_engine.h"
#include "zeroth/core/comm/process/address_exchange.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/comm/process/process_world.h"

namespace zeroth {
namespace {

absl::Status CheckOptions(const LaunchOptions& options, const mpi::Engine& engine) {
  ZEROTH_RETURN_IF_ERROR(CheckLaunchOptions(options));
  if (options.reduction != "tree") {
    return absl::InvalidArgumentError(absl::StrCat("reduction is '", options.reduction,
                                                   "', but the mpi back end has only 'tree'"));
  }
  if (options.world_size != 0 && options.world_size != engine.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("world_size is ", options.world_size, ", but ", engine.description(), " has ",
                     engine.size(), engine.size() == 1 ? " rank" : " ranks",
                     "; leave the number out, or start as many processes by mpirun or srun"));
  }
  return absl::OkStatus();
}

// The ranks, as MPI knows them; how many of them share this node, as the launcher says.
absl::StatusOr<ProcessEnvironment> ReadEnvironment(const mpi::Engine& engine) {
  ZEROTH_ASSIGN_OR_RETURN(ProcessEnvironment environment, ProcessEnvironment::ReadRanks());
  if (!environment.HasLauncher()) {
    environment.rank = engine.rank();
    environment.world_size = engine.size();
    environment.local_world_size = engine.size() == 1 ? 1 : 0;
    environment.launcher = "MPI";
  }
  ZEROTH_RETURN_IF_ERROR(mpi::CheckRanks(engine, environment));
  environment.address_by_launcher = engine.size() > 1;
  return environment;
}

// As large as the environment says; of a launcher unknown to it, MPI has to be asked.
absl::StatusOr<int> StartedRanks() {
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment environment, ProcessEnvironment::ReadRanks());
  if (environment.HasLauncher()) return environment.world_size;
  ZEROTH_ASSIGN_OR_RETURN(const mpi::Engine* const engine, mpi::Engine::Get());
  return engine->size();
}

// The communicator must stay until all ranks have returned: that a rank has returned says more than
// that its communicator is gone.
absl::Status RunRank(const std::shared_ptr<ProcessWorld>& processes, mpi::Engine& engine,
                     const RankMain& rank_main,
                     std::unique_ptr<mpi::MpiCommunicator>& communicator) {
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<mpi::Channel> channel,
                          mpi::Channel::Create(processes, engine, processes->WorldSeat()));
  communicator = std::make_unique<mpi::MpiCommunicator>(std::move(channel));
  return RunRankMain(rank_main, *communicator);
}

}  // namespace

absl::Status RunMpiRank(const LaunchOptions& options, const RankMain& rank_main) {
  ZEROTH_ASSIGN_OR_RETURN(mpi::Engine* const engine, mpi::Engine::Get());
  // First, because with the library of another launcher no world size is right.
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment environment, ReadEnvironment(*engine));
  ZEROTH_RETURN_IF_ERROR(CheckOptions(options, *engine));
  const absl::StatusOr<std::shared_ptr<ProcessWorld>> joined =
      ProcessWorld::Join(environment, options, "mpi");
  engine->SetInOrder(false);
  ZEROTH_RETURN_IF_ERROR(joined.status());
  const std::shared_ptr<ProcessWorld>& processes = *joined;
  processes->NameUnfinished([engine] { return engine->Unfinished(); });
  std::unique_ptr<mpi::MpiCommunicator> communicator;
  const absl::Status status =
      processes->Return(RunRank(processes, *engine, rank_main, communicator));
  engine->SetInOrder(status.ok());
  return status;
}

namespace {
const LauncherRegistration registration("mpi", RunMpiRank, StartedRanks,
                                        ProcessEnvironment::ReadLocalWorldSize);
const AddressExchangeRegistration address_registration(mpi::ExchangeAddress);
}  // namespace

}  // namespace zeroth
