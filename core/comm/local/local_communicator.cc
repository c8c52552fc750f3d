// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local_communicator.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective_checks.h"
#include "zeroth/core/comm/local/local_collectives.h"
#include "zeroth/core/comm/local/local_mover.h"
#include "zeroth/core/device/cpu/cpu_stream.h"

namespace zeroth {
namespace {

// A call between being enqueued and being run. If the stream drops it instead, the others would
// wait in vain: so its end without a run breaks the world.
class PendingCall {
 public:
  // `stream` is the one that runs or drops it.
  PendingCall(std::shared_ptr<LocalGroup> group, int rank, CollectiveOp op, CollectiveCall call,
              const LocalBuffers& buffers, const Stream& stream)
      : group_(std::move(group)),
        rank_(rank),
        op_(op),
        call_(std::move(call)),
        buffers_(buffers),
        stream_(stream) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  ~PendingCall() {
    if (!started_) {
      group_->world().BreakByDroppedCall(call_.ToString(), group_->world_rank(rank_),
                                         stream_.status());
    }
  }

  absl::Status Run() {
    started_ = true;
    Rendezvous& calls = group_->calls();
    ZEROTH_RETURN_IF_ERROR(calls.Arrive(rank_, call_, buffers_));
    absl::Status moved;
    if (call_.count != 0) moved = MoveData(calls.buffers(), HostMover());
    calls.Finish(rank_, call_.count != 0 && PeersUseMyBuffers());
    return moved;
  }

  // The same for a device whose streams run behind the host: the ranks' hosts meet here, and what
  // they enqueue is ordered by events.
  absl::Status Enqueue(Stream& stream) {
    started_ = true;
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMover> mover,
                            LocalMoverRegistry::Create(stream));
    ZEROTH_ASSIGN_OR_RETURN(buffers_.ready, stream.Record());
    Rendezvous& calls = group_->calls();
    ZEROTH_RETURN_IF_ERROR(calls.Arrive(rank_, call_, buffers_));
    absl::Status status = EnqueueShare(calls.buffers(), *mover, stream);
    calls.Finish(rank_, /*wait_for_all=*/true);
    // A peer may read and write this rank's buffers until its own share is done.
    for (int peer = 0; peer < group_->size() && status.ok(); ++peer) {
      if (peer != rank_ && group_->share_done(peer) != nullptr) {
        status = stream.Wait(group_->share_done(peer));
      }
    }
    return status;
  }

 private:
  absl::Status EnqueueShare(absl::Span<const LocalBuffers> ranks, LocalMover& mover,
                            Stream& stream) {
    group_->share_done(rank_) = nullptr;
    for (const LocalBuffers& peer : ranks) {
      if (&peer != &ranks[static_cast<size_t>(rank_)]) {
        ZEROTH_RETURN_IF_ERROR(stream.Wait(peer.ready));
      }
    }
    if (call_.count != 0) ZEROTH_RETURN_IF_ERROR(MoveData(ranks, mover));
    ZEROTH_ASSIGN_OR_RETURN(group_->share_done(rank_), stream.Record());
    return absl::OkStatus();
  }

  absl::Status MoveData(absl::Span<const LocalBuffers> ranks, LocalMover& mover) {
    switch (op_) {
      case CollectiveOp::kAllGather:
        return AllGatherShare(rank_, ranks, mover);
      case CollectiveOp::kReduceScatter:
        return ReduceScatterShare(rank_, ranks, *call_.reduce, mover);
      case CollectiveOp::kAllReduce:
        return AllReduceShare(rank_, ranks, *call_.reduce, mover);
      case CollectiveOp::kAllToAll:
        return AllToAllShare(rank_, ranks, mover);
      case CollectiveOp::kBroadcast:
        return BroadcastShare(rank_, ranks, *call_.root, mover);
      case CollectiveOp::kBarrier:
        break;
    }
    return absl::OkStatus();
  }

  bool PeersUseMyBuffers() const { return op_ != CollectiveOp::kBroadcast || rank_ == *call_.root; }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
  const CollectiveOp op_;
  const CollectiveCall call_;
  LocalBuffers buffers_;
  const Stream& stream_;
  bool started_ = false;
};

CollectiveCall MakeCall(int64_t count, DType dtype, absl::string_view label) {
  CollectiveCall call;
  call.count = count;
  call.dtype = dtype;
  call.label = std::string(label);
  return call;
}

}  // namespace

LocalCommunicator::LocalCommunicator(LocalGroup::Seat seat)
    : group_(std::move(seat.group)), rank_(seat.rank) {}

LocalCommunicator::~LocalCommunicator() { group_->Leave(rank_); }

absl::Status LocalCommunicator::AllGather(BufferView send, BufferView recv, Stream& stream,
                                          absl::string_view label) {
  return Enqueue(CollectiveOp::kAllGather, CheckAllGather(send, recv, rank_, size()),
                 MakeCall(send.count, send.dtype, label), {send, recv}, recv, stream);
}

absl::Status LocalCommunicator::ReduceScatter(BufferView send, BufferView recv, ReduceOp op,
                                              Stream& stream, absl::string_view label,
                                              bool accumulate) {
  CollectiveCall call = MakeCall(recv.count, send.dtype, label);
  call.reduce = op;
  return Enqueue(CollectiveOp::kReduceScatter,
                 CheckReduceScatter(send, recv, op, accumulate, rank_, size()), std::move(call),
                 {send, recv, accumulate}, send, stream);
}

absl::Status LocalCommunicator::AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                                          absl::string_view label) {
  CollectiveCall call = MakeCall(buffer.count, buffer.dtype, label);
  call.reduce = op;
  return Enqueue(CollectiveOp::kAllReduce, CheckAllReduce(buffer, op), std::move(call),
                 {buffer, buffer}, buffer, stream);
}

absl::Status LocalCommunicator::AllToAll(BufferView send, BufferView recv, Stream& stream,
                                         absl::string_view label, const AllToAllCounts& counts) {
  const int64_t count = counts.uneven() ? kUnevenCount : send.count;
  LocalBuffers buffers = {send, recv};
  buffers.counts = counts;
  return Enqueue(CollectiveOp::kAllToAll, CheckAllToAll(send, recv, size(), counts),
                 MakeCall(count, send.dtype, label), buffers, send, stream);
}

absl::Status LocalCommunicator::Broadcast(BufferView buffer, int root, Stream& stream,
                                          absl::string_view label) {
  CollectiveCall call = MakeCall(buffer.count, buffer.dtype, label);
  call.root = root;
  return Enqueue(CollectiveOp::kBroadcast, CheckBroadcast(buffer, root, size()), std::move(call),
                 {buffer, buffer}, buffer, stream);
}

absl::Status LocalCommunicator::Barrier(Stream& stream, absl::string_view label) {
  CollectiveCall call;
  call.label = std::string(label);
  return Enqueue(CollectiveOp::kBarrier, absl::OkStatus(), std::move(call), {}, {}, stream);
}

absl::Status LocalCommunicator::Enqueue(CollectiveOp op, const absl::Status& checked,
                                        CollectiveCall call, const LocalBuffers& buffers,
                                        const BufferView& full, Stream& stream) {
  const int world_rank = group_->world_rank(rank_);
  call.operation = CollectiveOpName(op);
  ZEROTH_ASSIGN_OR_RETURN(call.index, group_->calls().Issue(rank_));
  const std::string where = absl::StrCat("rank ", world_rank, " failed: ", call.operation, " '",
                                         call.label, "' on ", name());
  if (!checked.ok()) {
    const absl::Status error = Annotate(checked, where);
    group_->world().Break(error, world_rank);
    return error;
  }
  const int64_t bytes = op == CollectiveOp::kAllToAll
                            ? AllToAllBytes(full, buffers.counts, rank_, size())
                            : CollectiveBytes(op, ByteSize(full), size());
  stats_.Add(op, bytes, call.label);
  const auto pending =
      std::make_shared<PendingCall>(group_, rank_, op, std::move(call), buffers, stream);
  const bool on_host = dynamic_cast<CpuStream*>(&stream) != nullptr;
  const absl::Status status =
      on_host ? CpuStream::From(stream).Enqueue([pending] { return pending->Run(); })
              : pending->Enqueue(stream);
  // Only if the stream had failed by itself, in which case the world is not broken yet.
  if (!status.ok()) group_->world().Break(Annotate(status, where), world_rank);
  return status;
}

absl::StatusOr<std::unique_ptr<Communicator>> LocalCommunicator::Split(int color, int key) {
  ZEROTH_ASSIGN_OR_RETURN(LocalGroup::Seat seat, group_->Split(rank_, color, key));
  std::unique_ptr<Communicator> communicator;
  if (seat.group != nullptr) communicator = std::make_unique<LocalCommunicator>(std::move(seat));
  return communicator;
}

void LocalCommunicator::Abort(const absl::Status& reason) {
  ZEROTH_CHECK(!reason.ok());
  const int world_rank = group_->world_rank(rank_);
  group_->world().Break(Annotate(reason, absl::StrCat("rank ", world_rank, " aborted")),
                        world_rank);
}

absl::Status LocalCommunicator::status() const { return group_->world().status(); }

}  // namespace zeroth
