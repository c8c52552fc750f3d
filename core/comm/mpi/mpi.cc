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
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/checked_communicator.h"
#include "zeroth/core/comm/mpi/mpi_channel.h"
#include "zeroth/core/comm/mpi/mpi_engine.h"
#include "zeroth/core/comm/process/hang_watchdog.h"
#include "zeroth/core/comm/process/meeting.h"
#include "zeroth/core/comm/process/process_environment.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/comm/world_state.h"
#include "zeroth/core/device/cpu/cpu_stream.h"

namespace zeroth {
namespace {

// Calls that were enqueued together. If their stream drops them instead of running them, the other
// ranks would wait forever, so the destructor then breaks the world.
class PendingCalls {
 public:
  // `stream` runs or drops the calls.
  PendingCalls(std::shared_ptr<mpi::Channel> channel, absl::Span<const Collective> collectives,
               std::string what, Stream& stream)
      : channel_(std::move(channel)),
        collectives_(collectives.begin(), collectives.end()),
        what_(std::move(what)),
        stream_(stream) {}
  PendingCalls(const PendingCalls&) = delete;
  PendingCalls& operator=(const PendingCalls&) = delete;

  ~PendingCalls() {
    if (started_) return;
    ProcessWorld& processes = channel_->processes();
    const std::string call = collectives_.front().call.ToString();
    processes.Break(DroppedCall(processes.rank(), call, stream_.status()));
  }

  absl::Status Run() {
    started_ = true;
    // Allocated before the agreement: after it, nothing may fail on this rank alone.
    size_t bytes = 0;
    for (const Collective& collective : collectives_) {
      bytes = std::max(bytes, mpi::ScratchBytes(collective, channel_->grid()));
    }
    absl::StatusOr<char*> scratch = channel_->Scratch(bytes, stream_);
    if (!scratch.ok()) return channel_->processes().Fail(scratch.status(), what_);
    ZEROTH_RETURN_IF_ERROR(channel_->Agree(CallsOf(collectives_)));
    for (const Collective& collective : collectives_) {
      ZEROTH_RETURN_IF_ERROR(mpi::MoveData(collective, *channel_, *scratch));
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<mpi::Channel> channel_;
  const std::vector<Collective> collectives_;
  const std::string what_;  // for messages
  Stream& stream_;
  bool started_ = false;
};

absl::Status CheckStream(Stream& stream) {
  if (dynamic_cast<CpuStream*>(&stream) != nullptr) return absl::OkStatus();
  return InvalidArgument(
      "the stream '", stream.name(), "' belongs to ", stream.device().name(),
      ", expected one of the CPU, between whose memories MPI moves data; on GPUs "
      "communicate by 'nccl' or, in one process, 'local'");
}

// One rank's communicator of a group of processes, for CPU streams. A stream's own thread meets the
// other ranks for a call, and waits while the engine moves the data.
class MpiCommunicator final : public CheckedCommunicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<mpi::Channel> channel) : channel_(std::move(channel)) {}

  int rank() const override { return channel_->rank(); }
  int size() const override { return channel_->size(); }
  std::string name() const override { return channel_->name(); }
  absl::Status status() const override { return channel_->processes().status(); }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    ProcessWorld& processes = channel_->processes();
    ZEROTH_ASSIGN_OR_RETURN(ProcessWorld::Seat seat,
                            processes.Split(channel_->group(), color, key));
    if (seat.group == kNoGroup) return std::unique_ptr<Communicator>();
    absl::StatusOr<std::shared_ptr<mpi::Channel>> channel =
        mpi::Channel::Create(channel_->shared_processes(), channel_->engine(), std::move(seat));
    if (!channel.ok()) {
      return processes.Fail(channel.status(), absl::StrCat("split of ", channel_->name()));
    }
    return std::unique_ptr<Communicator>(new MpiCommunicator(*std::move(channel)));
  }

 private:
  absl::Status Enqueue(absl::Span<Collective> collectives, const absl::Status& checked,
                       Stream& stream) override {
    ProcessWorld& processes = channel_->processes();
    ZEROTH_RETURN_IF_ERROR(processes.StatusAfterHooks());
    const std::string what = Describe(collectives.front().call);
    if (!checked.ok()) return processes.Fail(checked, what);
    if (absl::Status wrong = CheckStream(stream); !wrong.ok()) return processes.Fail(wrong, what);
    for (Collective& collective : collectives) {
      collective.call.index = enqueued_++;
      Count(collective);
    }
    const auto pending = std::make_shared<PendingCalls>(channel_, collectives, what, stream);
    const absl::Status status =
        CpuStream::From(stream).Enqueue([pending] { return pending->Run(); });
    // If the stream had failed before, the world is not broken yet.
    return status.ok() ? status : processes.Fail(status, what);
  }
  int world_rank() const override { return channel_->processes().rank(); }
  void Break(const absl::Status& reason) override { channel_->processes().Break(reason); }

  const std::shared_ptr<mpi::Channel> channel_;
  uint64_t enqueued_ = 0;
};

absl::Status CheckWorldSize(const LaunchOptions& options, const mpi::Engine& engine) {
  if (options.world_size != 0 && options.world_size != engine.size()) {
    return InvalidArgument("world_size is ", options.world_size, ", but ", engine.description(),
                           " has ", engine.size(), engine.size() == 1 ? " rank" : " ranks",
                           "; leave the number out, or start as many processes by mpirun or srun");
  }
  return absl::OkStatus();
}

// The message with rank 0's address. All ranks use a fixed length, because a receiver does not know
// the text's. The first byte says whether an address or an error follows, padded by zeros.
using AddressMessage = std::array<char, 1024>;
constexpr char kAddress = 'a';
constexpr char kError = 'e';

// How long ranks wait for others to start. Processes of one job may start at very different times.
absl::Duration StartTimeout(const LaunchOptions& options) {
  return std::max(options.timeout, absl::Minutes(1));
}

AddressMessage EncodeAddress(const absl::StatusOr<std::string>& own) {
  const std::string text = own.ok() ? *own : std::string(own.status().message());
  AddressMessage message{};
  message[0] = own.ok() ? kAddress : kError;
  std::memcpy(message.data() + 1, text.data(), std::min(text.size(), message.size() - 2));
  return message;
}

absl::StatusOr<std::string> DecodeAddress(const AddressMessage& message) {
  const std::string text(message.data() + 1);
  if (message[0] == kAddress) return text;
  return absl::UnavailableError(absl::StrCat("rank 0 failed: ", text));
}

// FailedPrecondition unless MPI and the environment agree about this rank. If they do not, the
// loaded library is not that of the launcher.
absl::Status CheckRanks(const mpi::Engine& engine, const ProcessEnvironment& environment) {
  if (environment.rank == engine.rank() && environment.world_size == engine.size()) {
    return absl::OkStatus();
  }
  return FailedPrecondition(
      environment.launcher, " has started this process as rank ", environment.rank, " of ",
      environment.world_size, ", but to ", engine.description(), " it is rank ", engine.rank(),
      " of ", engine.size(),
      ": the two do not belong together; start it by the mpirun of that MPI (under Slurm: srun "
      "--mpi=pmix, or pmi2), or set ZEROTH_MPI_LIBRARY to the library of the launcher's");
}

// The AddressExchange (process/meeting.h) of this back end, and of others whose ranks mpirun
// starts.
absl::StatusOr<std::string> ExchangeAddress(const ProcessEnvironment& environment,
                                            const absl::StatusOr<std::string>& own,
                                            const LaunchOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(mpi::Engine* const engine, mpi::Engine::Get(StartTimeout(options)));
  ZEROTH_RETURN_IF_ERROR(CheckRanks(*engine, environment));
  AddressMessage message{};
  std::vector<mpi::Message> messages;
  const auto bytes = static_cast<int64_t>(message.size());
  if (engine->rank() == 0) {
    message = EncodeAddress(own);
    for (int peer = 1; peer < engine->size(); ++peer) {
      messages.push_back({mpi::Message::Direction::kSend, peer, message.data(), bytes});
    }
  } else {
    messages.push_back({mpi::Message::Direction::kReceive, 0, message.data(), bytes});
  }
  const absl::Duration most = StartTimeout(options);
  const auto begin = std::chrono::steady_clock::now();
  std::optional<HangWatchdog> hang_watchdog;
  const std::shared_ptr<mpi::Engine::Exchange> exchange = engine->Start(mpi::kAddressTag, messages);
  while (!engine->WaitFor(*exchange, std::chrono::milliseconds(100))) {
    if (absl::FromChrono(std::chrono::steady_clock::now() - begin) < most) continue;
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("timeout after ", absl::FormatDuration(most),
                     " on the way to rank 0: its address does not come by MPI; has rank 0 begun to "
                     "communicate?"));
    // Abandon does not help while the engine's thread hangs inside MPI.
    if (!hang_watchdog.has_value()) {
      hang_watchdog.emplace(options.ends_stuck_process, [engine, late] {
        return absl::StrCat("rank ", engine->rank(), ": ", late.ToString(), "; ",
                            engine->Unfinished());
      });
    }
    engine->Abandon(late);
  }
  ZEROTH_RETURN_IF_ERROR(engine->StatusOf(*exchange));
  engine->SetInOrder(true);
  if (engine->rank() == 0) return own;
  return DecodeAddress(message);
}

// Gets the ranks from MPI, for a process that no known launcher has started.
void TakeRanks(const mpi::Engine& engine, ProcessEnvironment& environment) {
  environment.rank = engine.rank();
  environment.world_size = engine.size();
  environment.local_world_size = engine.size() == 1 ? 1 : 0;
  environment.launcher = "MPI";
}

// Reads the ranks from the environment, or from MPI if no known launcher has started this process.
absl::StatusOr<ProcessEnvironment> ReadEnvironment(const mpi::Engine& engine) {
  ZEROTH_ASSIGN_OR_RETURN(ProcessEnvironment environment, ProcessEnvironment::ReadRanks());
  if (!environment.HasLauncher()) TakeRanks(engine, environment);
  ZEROTH_RETURN_IF_ERROR(CheckRanks(engine, environment));
  environment.address_by_launcher = engine.size() > 1;
  return environment;
}

// Returns the numbers of ranks from the environment, or from MPI if no known launcher has set them.
absl::StatusOr<StartedRanks> ReadStarted() {
  ZEROTH_ASSIGN_OR_RETURN(ProcessEnvironment environment, ProcessEnvironment::ReadRanks());
  if (!environment.HasLauncher()) {
    ZEROTH_ASSIGN_OR_RETURN(const mpi::Engine* const engine, mpi::Engine::Get());
    TakeRanks(*engine, environment);
  }
  return StartedRanks{environment.world_size, environment.local_world_size};
}

// The caller keeps `communicator` until all ranks have returned. The other ranks' error then says
// that this rank has returned, and not that its communicator is gone.
absl::Status RunRank(const std::shared_ptr<ProcessWorld>& processes, mpi::Engine& engine,
                     const RankMain& rank_main, std::unique_ptr<MpiCommunicator>& communicator) {
  ZEROTH_RETURN_IF_ERROR(processes->AnnounceNode());
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<mpi::Channel> channel,
                          mpi::Channel::Create(processes, engine, processes->WorldSeat()));
  communicator = std::make_unique<MpiCommunicator>(std::move(channel));
  return RunRankMain(rank_main, *communicator);
}

}  // namespace

absl::Status RunMpiRank(const LaunchOptions& options, const RankMain& rank_main) {
  ZEROTH_RETURN_IF_ERROR(CheckLaunchOptionsWithoutNccl(options, "mpi"));
  ZEROTH_ASSIGN_OR_RETURN(mpi::Engine* const engine, mpi::Engine::Get(StartTimeout(options)));
  // Checked first, because the world size is wrong if the library is another launcher's.
  ZEROTH_ASSIGN_OR_RETURN(const ProcessEnvironment environment, ReadEnvironment(*engine));
  ZEROTH_RETURN_IF_ERROR(CheckWorldSize(options, *engine));
  const absl::StatusOr<std::shared_ptr<ProcessWorld>> joined =
      ProcessWorld::Join(environment, options, "mpi");
  engine->SetInOrder(false);
  ZEROTH_RETURN_IF_ERROR(joined.status());
  const std::shared_ptr<ProcessWorld>& processes = *joined;
  processes->NameUnfinished([engine] { return engine->Unfinished(); });
  std::unique_ptr<MpiCommunicator> communicator;
  const absl::Status status =
      processes->Return(RunRank(processes, *engine, rank_main, communicator));
  engine->SetInOrder(status.ok());
  return status;
}

namespace {
const LauncherRegistration registration("mpi", RunMpiRank, ReadStarted);
const AddressExchangeRegistration address_registration(ExchangeAddress);
}  // namespace

}  // namespace zeroth
