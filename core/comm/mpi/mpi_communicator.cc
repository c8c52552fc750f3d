// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi_communicator.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/mpi/mpi_collectives.h"
#include "zeroth/core/device/cpu/cpu_stream.h"

namespace zeroth::mpi {
namespace {

// A call that was enqueued. If its stream drops it instead of running it, the other ranks would
// wait in vain, so the destructor then breaks the world.
class PendingCall {
 public:
  // `stream` runs or drops the call.
  PendingCall(std::shared_ptr<Channel> channel, Collective collective, std::string what,
              Stream& stream)
      : channel_(std::move(channel)),
        collective_(std::move(collective)),
        what_(std::move(what)),
        stream_(stream) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  ~PendingCall() {
    if (started_) return;
    const absl::Status cause = stream_.status();
    const std::string dropped =
        absl::StrCat(channel_->processes().Failed(), ": its stream stopped before ",
                     collective_.call.ToString());
    channel_->processes().Break(cause.ok() ? absl::AbortedError(dropped)
                                           : Annotate(cause, dropped));
  }

  absl::Status Run() {
    started_ = true;
    // Allocated before the agreement: after it, nothing may fail on this rank alone.
    absl::StatusOr<char*> scratch =
        channel_->Scratch(ScratchBytes(collective_, channel_->size()), stream_);
    if (!scratch.ok()) return channel_->processes().Fail(scratch.status(), what_);
    ZEROTH_RETURN_IF_ERROR(channel_->Agree(collective_.call));
    return MoveData(collective_, *channel_, *scratch);
  }

 private:
  const std::shared_ptr<Channel> channel_;
  const Collective collective_;
  const std::string what_;  // for messages
  Stream& stream_;
  bool started_ = false;
};

absl::Status CheckStream(Stream& stream) {
  if (dynamic_cast<CpuStream*>(&stream) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the stream '", stream.name(), "' belongs to ", stream.device().name(),
                   ", expected one of the CPU, between whose memories MPI moves data; on GPUs "
                   "communicate by 'nccl' or, in one process, 'local'"));
}

}  // namespace

absl::Status MpiCommunicator::Enqueue(Collective collective, const absl::Status& checked,
                                      Stream& stream) {
  ProcessWorld& processes = channel_->processes();
  ZEROTH_RETURN_IF_ERROR(processes.SettledStatus());
  collective.call.index = enqueued_++;
  const std::string what = Describe(collective.call);
  if (!checked.ok()) return processes.Fail(checked, what);
  if (absl::Status wrong = CheckStream(stream); !wrong.ok()) return processes.Fail(wrong, what);
  Count(collective);
  const auto pending = std::make_shared<PendingCall>(channel_, std::move(collective), what, stream);
  const absl::Status status = CpuStream::From(stream).Enqueue([pending] { return pending->Run(); });
  // If the stream had failed before, the world is not broken yet.
  return status.ok() ? status : processes.Fail(status, what);
}

absl::StatusOr<std::unique_ptr<Communicator>> MpiCommunicator::Split(int color, int key) {
  ProcessWorld& processes = channel_->processes();
  ZEROTH_ASSIGN_OR_RETURN(ProcessWorld::Seat seat, processes.Split(channel_->group(), color, key));
  if (seat.group == kNoGroup) return std::unique_ptr<Communicator>();
  absl::StatusOr<std::shared_ptr<Channel>> channel =
      Channel::Create(channel_->shared_processes(), channel_->engine(), std::move(seat));
  if (!channel.ok()) {
    return processes.Fail(channel.status(), absl::StrCat("split of ", channel_->name()));
  }
  return std::unique_ptr<Communicator>(new MpiCommunicator(*std::move(channel)));
}

}  // namespace zeroth::mpi
