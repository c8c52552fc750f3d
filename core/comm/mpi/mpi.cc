// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/mpi/mpi_channel.h"
#include "zeroth/core/comm/mpi/mpi_communicator.h"
#include "zeroth/core/comm/mpi/mpi_engine.h"
#include "zeroth/core/comm/process/last_resort.h"
#include "zeroth/core/comm/process/meeting.h"
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

// The message that tells the address. It has the same length on all ranks, because a receiver does
// not know the text's. The first byte says whether an address or an error follows, padded by zeros.
using Letter = std::array<char, 1024>;
constexpr char kAddress = 'a';
constexpr char kError = 'e';

// Processes of one job may start at very different times.
constexpr absl::Duration kLeastTimeout = absl::Minutes(1);

Letter Write(const absl::StatusOr<std::string>& own) {
  const std::string text = own.ok() ? *own : std::string(own.status().message());
  Letter letter{};
  letter[0] = own.ok() ? kAddress : kError;
  std::memcpy(letter.data() + 1, text.data(), std::min(text.size(), letter.size() - 2));
  return letter;
}

absl::StatusOr<std::string> Read(const Letter& letter) {
  const std::string text(letter.data() + 1);
  if (letter[0] == kAddress) return text;
  return absl::UnavailableError(absl::StrCat("rank 0 failed: ", text));
}

// FailedPrecondition unless MPI and the environment agree about this rank. If they do not, the
// loaded library is not that of the launcher.
absl::Status CheckRanks(const mpi::Engine& engine, const ProcessEnvironment& environment) {
  if (environment.rank == engine.rank() && environment.world_size == engine.size()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      environment.launcher, " has started this process as rank ", environment.rank, " of ",
      environment.world_size, ", but to ", engine.description(), " it is rank ", engine.rank(),
      " of ", engine.size(),
      ": the two do not belong together; start it by the mpirun of that MPI (under Slurm: srun "
      "--mpi=pmix, or pmi2), or set ZEROTH_MPI_LIBRARY to the library of the launcher's"));
}

// The AddressExchange (process/meeting.h) of this back end, and of others whose ranks mpirun
// starts.
absl::StatusOr<std::string> ExchangeAddress(const ProcessEnvironment& environment,
                                            const absl::StatusOr<std::string>& own,
                                            absl::Duration timeout) {
  ZEROTH_ASSIGN_OR_RETURN(mpi::Engine* const engine, mpi::Engine::Get());
  ZEROTH_RETURN_IF_ERROR(CheckRanks(*engine, environment));
  Letter letter{};
  std::vector<mpi::Message> messages;
  const auto bytes = static_cast<int64_t>(letter.size());
  if (engine->rank() == 0) {
    letter = Write(own);
    for (int peer = 1; peer < engine->size(); ++peer) {
      messages.push_back({mpi::Message::Way::kSend, peer, letter.data(), bytes});
    }
  } else {
    messages.push_back({mpi::Message::Way::kReceive, 0, letter.data(), bytes});
  }
  const absl::Duration most = std::max(timeout, kLeastTimeout);
  const auto begin = std::chrono::steady_clock::now();
  std::optional<LastResort> last_resort;
  const std::shared_ptr<mpi::Engine::Exchange> exchange = engine->Start(mpi::kAddressTag, messages);
  while (!engine->WaitFor(*exchange, std::chrono::milliseconds(100))) {
    if (absl::FromChrono(std::chrono::steady_clock::now() - begin) < most) continue;
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("timeout after ", absl::FormatDuration(most),
                     " on the way to rank 0: its address does not come by MPI; has rank 0 begun to "
                     "communicate?"));
    // Abandon does not help while the engine's thread hangs inside MPI.
    if (!last_resort.has_value()) {
      last_resort.emplace([engine, late] {
        return absl::StrCat("rank ", engine->rank(), ": ", late.ToString(),
                            "; this process ends: ", engine->Unfinished());
      });
    }
    engine->Abandon(late);
  }
  ZEROTH_RETURN_IF_ERROR(engine->StatusOf(*exchange));
  engine->SetInOrder(true);
  if (engine->rank() == 0) return own;
  return Read(letter);
}

// Reads the ranks from the environment, or from MPI if no known launcher has started this process.
absl::StatusOr<ProcessEnvironment> ReadEnvironment(const mpi::Engine& engine) {
  ZEROTH_ASSIGN_OR_RETURN(ProcessEnvironment environment, ProcessEnvironment::ReadRanks());
  if (!environment.HasLauncher()) {
    environment.rank = engine.rank();
    environment.world_size = engine.size();
    environment.local_world_size = engine.size() == 1 ? 1 : 0;
    environment.launcher = "MPI";
  }
  ZEROTH_RETURN_IF_ERROR(CheckRanks(engine, environment));
  environment.address_by_launcher = engine.size() > 1;
  return environment;
}

// Returns the world size from the environment, or from MPI if no known launcher has set it.
absl::StatusOr<int> StartedRanks() {
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment environment, ProcessEnvironment::ReadRanks());
  if (environment.HasLauncher()) return environment.world_size;
  ZEROTH_ASSIGN_OR_RETURN(const mpi::Engine* const engine, mpi::Engine::Get());
  return engine->size();
}

// The caller keeps `communicator` until all ranks have returned. The other ranks' error then says
// that this rank has returned, and not that its communicator is gone.
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
  // Checked first, because the world size is wrong if the library is another launcher's.
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
const AddressExchangeRegistration address_registration(ExchangeAddress);
}  // namespace

}  // namespace zeroth
