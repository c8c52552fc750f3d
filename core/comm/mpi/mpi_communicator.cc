// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/mpi/mpi_communicator.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective_checks.h"
#include "zeroth/core/device/cpu/cpu_stream.h"

namespace zeroth::mpi {
namespace {

// "rank 3 failed: all_gather 'h.2' on mpi world ranks [0, 1, 2, 3]"
std::string Where(const Channel& channel, const CollectiveCall& call) {
  return absl::StrCat("rank ", channel.processes().rank(), " failed: ", call.operation, " '",
                      call.label, "' on ", channel.name());
}

// The world's error, which is this one unless there was another before.
absl::Status Fail(const Channel& channel, const CollectiveCall& call, const absl::Status& error) {
  ProcessWorld& processes = channel.processes();
  if (absl::Status broken = processes.SettledStatus(); !broken.ok()) return broken;
  const absl::Status annotated = Annotate(error, Where(channel, call));
  processes.Break(annotated);
  return annotated;
}

// A call between being enqueued and being run. If the stream drops it instead, the others would
// wait in vain: so its end without a run breaks the world.
class PendingCall {
 public:
  // `stream` is the one that runs or drops it.
  PendingCall(std::shared_ptr<Channel> channel, Collective collective, Stream& stream)
      : channel_(std::move(channel)), collective_(std::move(collective)), stream_(stream) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  ~PendingCall() {
    if (started_) return;
    const absl::Status cause = stream_.status();
    const std::string dropped =
        absl::StrCat("rank ", channel_->processes().rank(), " failed: its stream stopped before ",
                     collective_.call.ToString());
    channel_->processes().Break(cause.ok() ? absl::AbortedError(dropped)
                                           : Annotate(cause, dropped));
  }

  absl::Status Run() {
    started_ = true;
    // Before the others count on this rank: from then on nothing may fail here alone.
    absl::StatusOr<char*> scratch =
        channel_->Scratch(ScratchBytes(collective_, channel_->size()), stream_);
    if (!scratch.ok()) return Fail(*channel_, collective_.call, scratch.status());
    ZEROTH_RETURN_IF_ERROR(channel_->Agree(collective_.call));
    return MoveData(collective_, *channel_, *scratch);
  }

 private:
  const std::shared_ptr<Channel> channel_;
  const Collective collective_;
  Stream& stream_;
  bool started_ = false;
};

Collective MakeCollective(CollectiveOp op, int64_t count, const BufferView& send,
                          const BufferView& recv, absl::string_view label) {
  Collective collective;
  collective.op = op;
  collective.call.operation = CollectiveOpName(op);
  collective.call.count = count;
  collective.call.dtype = send.dtype;
  collective.call.label = std::string(label);
  collective.send = send;
  collective.recv = recv;
  return collective;
}

absl::Status CheckStream(Stream& stream) {
  if (dynamic_cast<CpuStream*>(&stream) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the stream '", stream.name(), "' belongs to ", stream.device().name(),
                   ", expected one of the CPU, between whose memories MPI moves data; on GPUs "
                   "communicate by 'nccl' or, in one process, 'local'"));
}

}  // namespace

absl::Status MpiCommunicator::AllGather(BufferView send, BufferView recv, Stream& stream,
                                        absl::string_view label) {
  return Enqueue(MakeCollective(CollectiveOp::kAllGather, send.count, send, recv, label),
                 CheckAllGather(send, recv, rank(), size()), recv, stream);
}

absl::Status MpiCommunicator::ReduceScatter(BufferView send, BufferView recv, ReduceOp op,
                                            Stream& stream, absl::string_view label,
                                            bool accumulate) {
  Collective collective =
      MakeCollective(CollectiveOp::kReduceScatter, recv.count, send, recv, label);
  collective.call.reduce = op;
  collective.accumulate = accumulate;
  return Enqueue(std::move(collective),
                 CheckReduceScatter(send, recv, op, accumulate, rank(), size()), send, stream);
}

absl::Status MpiCommunicator::AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                                        absl::string_view label) {
  Collective collective =
      MakeCollective(CollectiveOp::kAllReduce, buffer.count, buffer, buffer, label);
  collective.call.reduce = op;
  return Enqueue(std::move(collective), CheckAllReduce(buffer, op), buffer, stream);
}

absl::Status MpiCommunicator::AllToAll(BufferView send, BufferView recv, Stream& stream,
                                       absl::string_view label, const AllToAllCounts& counts) {
  const int64_t count = counts.uneven() ? kUnevenCount : send.count;
  Collective collective = MakeCollective(CollectiveOp::kAllToAll, count, send, recv, label);
  collective.counts = counts;
  return Enqueue(std::move(collective), CheckAllToAll(send, recv, size(), counts), send, stream);
}

absl::Status MpiCommunicator::Broadcast(BufferView buffer, int root, Stream& stream,
                                        absl::string_view label) {
  Collective collective =
      MakeCollective(CollectiveOp::kBroadcast, buffer.count, buffer, buffer, label);
  collective.call.root = root;
  return Enqueue(std::move(collective), CheckBroadcast(buffer, root, size()), buffer, stream);
}

absl::Status MpiCommunicator::Barrier(Stream& stream, absl::string_view label) {
  Collective collective = MakeCollective(CollectiveOp::kBarrier, 0, {}, {}, label);
  collective.call.dtype.reset();
  return Enqueue(std::move(collective), absl::OkStatus(), {}, stream);
}

absl::Status MpiCommunicator::Enqueue(Collective collective, const absl::Status& checked,
                                      const BufferView& full, Stream& stream) {
  ZEROTH_RETURN_IF_ERROR(channel_->processes().SettledStatus());
  collective.call.index = enqueued_++;
  if (!checked.ok()) return Fail(*channel_, collective.call, checked);
  if (absl::Status wrong = CheckStream(stream); !wrong.ok()) {
    return Fail(*channel_, collective.call, wrong);
  }
  const int64_t bytes = collective.op == CollectiveOp::kAllToAll
                            ? AllToAllBytes(full, collective.counts, rank(), size())
                            : CollectiveBytes(collective.op, ByteSize(full), size());
  stats_.Add(collective.op, bytes, collective.call.label);
  const CollectiveCall call = collective.call;
  const auto pending = std::make_shared<PendingCall>(channel_, std::move(collective), stream);
  const absl::Status status = CpuStream::From(stream).Enqueue([pending] { return pending->Run(); });
  // A stream that had failed by itself has not broken the world yet.
  return status.ok() ? status : Fail(*channel_, call, status);
}

absl::StatusOr<std::unique_ptr<Communicator>> MpiCommunicator::Split(int color, int key) {
  ProcessWorld& processes = channel_->processes();
  ZEROTH_ASSIGN_OR_RETURN(ProcessWorld::Seat seat, processes.Split(channel_->group(), color, key));
  if (seat.group == kNoGroup) return std::unique_ptr<Communicator>();
  absl::StatusOr<std::shared_ptr<Channel>> channel =
      Channel::Create(channel_->shared_processes(), channel_->engine(), std::move(seat));
  if (!channel.ok()) {
    const absl::Status error =
        Annotate(channel.status(),
                 absl::StrCat("rank ", processes.rank(), " failed: split of ", channel_->name()));
    processes.Break(error);
    return error;
  }
  return std::unique_ptr<Communicator>(new MpiCommunicator(*std::move(channel)));
}

void MpiCommunicator::Abort(const absl::Status& reason) {
  ZEROTH_CHECK(!reason.ok());
  ProcessWorld& processes = channel_->processes();
  processes.Break(Annotate(reason, absl::StrCat("rank ", processes.rank(), " aborted")));
}

}  // namespace zeroth::mpi
