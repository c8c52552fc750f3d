// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local_communicator.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local_mover.h"
#include "zeroth/core/device/cpu/cpu_stream.h"

namespace zeroth {
namespace {

// A call that was enqueued. If its stream drops it instead of running it, the other ranks would
// wait in vain, so the destructor then breaks the world.
class PendingCall {
 public:
  // `stream` runs or drops the call.
  PendingCall(std::shared_ptr<LocalGroup> group, int rank, Collective collective,
              const Stream& stream)
      : group_(std::move(group)),
        rank_(rank),
        collective_(std::move(collective)),
        buffers_{collective_.send, collective_.recv, nullptr, collective_.counts},
        stream_(stream) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  ~PendingCall() {
    if (!started_) {
      group_->world().BreakByDroppedCall(collective_.call.ToString(), group_->world_rank(rank_),
                                         stream_.status());
    }
  }

  absl::Status Run() {
    started_ = true;
    Rendezvous& calls = group_->calls();
    ZEROTH_RETURN_IF_ERROR(calls.Arrive(rank_, collective_.call, buffers_));
    absl::Status moved;
    if (HasData()) moved = MoveShare(collective_, rank_, calls.buffers(), HostMover());
    calls.Finish(rank_, HasData() && PeersUseMyBuffers());
    return moved;
  }

  // The same for a device whose streams run behind the host. The ranks' host threads meet here, and
  // events order the work that they enqueue.
  absl::Status Enqueue(Stream& stream) {
    started_ = true;
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMover> mover,
                            LocalMoverRegistry::Create(stream));
    ZEROTH_ASSIGN_OR_RETURN(buffers_.ready, stream.Record());
    Rendezvous& calls = group_->calls();
    ZEROTH_RETURN_IF_ERROR(calls.Arrive(rank_, collective_.call, buffers_));
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
    if (HasData()) ZEROTH_RETURN_IF_ERROR(MoveShare(collective_, rank_, ranks, mover));
    ZEROTH_ASSIGN_OR_RETURN(group_->share_done(rank_), stream.Record());
    return absl::OkStatus();
  }

  bool HasData() const { return collective_.call.count != 0; }
  bool PeersUseMyBuffers() const {
    return collective_.op != CollectiveOp::kBroadcast || rank_ == *collective_.call.root;
  }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
  const Collective collective_;
  LocalBuffers buffers_;
  const Stream& stream_;
  bool started_ = false;
};

}  // namespace

LocalCommunicator::LocalCommunicator(LocalGroup::Seat seat)
    : group_(std::move(seat.group)), rank_(seat.rank) {}

LocalCommunicator::~LocalCommunicator() { group_->Leave(rank_); }

absl::Status LocalCommunicator::Enqueue(Collective collective, const absl::Status& checked,
                                        Stream& stream) {
  ZEROTH_ASSIGN_OR_RETURN(collective.call.index, group_->calls().Issue(rank_));
  const std::string where =
      absl::StrCat("rank ", world_rank(), " failed: ", Describe(collective.call));
  if (!checked.ok()) {
    const absl::Status error = Annotate(checked, where);
    Break(error);
    return error;
  }
  Count(collective);
  const auto pending = std::make_shared<PendingCall>(group_, rank_, std::move(collective), stream);
  const bool on_host = dynamic_cast<CpuStream*>(&stream) != nullptr;
  const absl::Status status =
      on_host ? CpuStream::From(stream).Enqueue([pending] { return pending->Run(); })
              : pending->Enqueue(stream);
  // If the stream had failed before, the world is not broken yet.
  if (!status.ok()) Break(Annotate(status, where));
  return status;
}

absl::StatusOr<std::unique_ptr<Communicator>> LocalCommunicator::Split(int color, int key) {
  ZEROTH_ASSIGN_OR_RETURN(LocalGroup::Seat seat, group_->Split(rank_, color, key));
  std::unique_ptr<Communicator> communicator;
  if (seat.group != nullptr) communicator = std::make_unique<LocalCommunicator>(std::move(seat));
  return communicator;
}

absl::Status LocalCommunicator::status() const { return group_->world().status(); }

}  // namespace zeroth
