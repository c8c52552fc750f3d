// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local.h"

#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"
#include "zeroth/core/comm/checked_communicator.h"
#include "zeroth/core/comm/local/local_mover.h"
#include "zeroth/core/comm/local/rendezvous.h"
#include "zeroth/core/comm/world_state.h"
#include "zeroth/core/device/cpu/cpu_stream.h"

namespace zeroth {
namespace {

// The state that the communicators of one group share. The communicators own it, and so do their
// calls until streams have run them.
class LocalGroup {
 public:
  // One rank's place in a group. `group` is null for a rank that joined none.
  struct Seat {
    std::shared_ptr<LocalGroup> group;
    int rank = 0;
  };

  // The world's mutex must be held.
  LocalGroup(std::shared_ptr<WorldState> world, std::vector<int> world_ranks)
      : world_(std::move(world)),
        calls_(world_, world_ranks, GroupName("local", world_ranks)),
        share_done_(world_ranks.size()),
        splits_(world_, world_ranks, calls_.name()),
        requests_(world_ranks.size()),
        seats_(world_ranks.size()) {}

  // The rendezvous of collectives.
  Rendezvous& calls() { return calls_; }
  // The event after which `rank`'s share of the current call is done, on devices that run behind
  // the host. Each rank sets its own between Arrive and Finish. All may read them from then until
  // they arrive at the next call.
  std::shared_ptr<Event>& share_done(int rank) { return share_done_[static_cast<size_t>(rank)]; }

  // See Communicator::Split. Blocks until all ranks of the group have called it.
  absl::StatusOr<Seat> Split(int rank, int color, int key) {
    CollectiveCall call;
    call.operation = "split";
    ZEROTH_ASSIGN_OR_RETURN(call.index, splits_.Issue(rank));
    // Safe without the mutex: others read it only after all ranks have arrived, and before the next
    // split.
    requests_[static_cast<size_t>(rank)] = {color, key};
    ZEROTH_RETURN_IF_ERROR(splits_.Arrive(rank, call, {}, [this] { AssignSeatsLocked(); }));
    Seat seat = std::exchange(seats_[static_cast<size_t>(rank)], {});
    splits_.Finish(rank, /*wait_for_all=*/false);
    return seat;
  }

  // `rank` has destroyed its communicator.
  void Leave(int rank) {
    calls_.Leave(rank);
    splits_.Leave(rank);
  }

 private:
  // Makes the new groups from all ranks' requests.
  void AssignSeatsLocked() {
    for (const std::vector<int>& ranks : SplitGroups(requests_)) {
      std::vector<int> world_ranks;
      for (int rank : ranks) world_ranks.push_back(calls_.world_rank(rank));
      const auto group = std::make_shared<LocalGroup>(world_, std::move(world_ranks));
      for (size_t i = 0; i < ranks.size(); ++i) {
        seats_[static_cast<size_t>(ranks[i])] = {group, static_cast<int>(i)};
      }
    }
  }

  const std::shared_ptr<WorldState> world_;
  Rendezvous calls_;
  std::vector<std::shared_ptr<Event>> share_done_;
  // Splits have their own rendezvous, because they do not wait for calls on streams.
  Rendezvous splits_;
  std::vector<SplitRequest> requests_;
  std::vector<Seat> seats_;
};

// A call that was enqueued. If its stream drops it instead of running it, the other ranks would
// wait forever, so the destructor then breaks the world.
class PendingCall {
 public:
  // `stream` runs or drops the call.
  PendingCall(std::shared_ptr<LocalGroup> group, int rank, Collective collective,
              const Stream& stream)
      : group_(std::move(group)),
        calls_(group_->calls()),
        rank_(rank),
        collective_(std::move(collective)),
        buffers_{collective_.send, collective_.recv, nullptr, collective_.counts},
        stream_(stream) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  ~PendingCall() {
    if (started_) return;
    const int rank = calls_.world_rank(rank_);
    calls_.world().Break(DroppedCall(rank, collective_.call.ToString(), stream_.status()), rank,
                         /*symptom=*/true);
  }

  absl::Status Run() {
    started_ = true;
    ZEROTH_RETURN_IF_ERROR(calls_.Arrive(rank_, collective_.call, buffers_));
    // Peers wait for this even if memory runs out.
    const absl::Cleanup finish = [this] { calls_.Finish(rank_, HasData() && PeersUseMyBuffers()); };
    if (!HasData()) return absl::OkStatus();
    return CopyRankPieces(collective_, rank_, calls_.buffers(), HostMover());
  }

  // Like Run, for a device whose streams run asynchronously to the host. The ranks' host threads
  // meet here, and events order the work that they enqueue.
  absl::Status Enqueue(Stream& stream) {
    started_ = true;
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LocalMover> mover, NewLocalMover(stream));
    ZEROTH_ASSIGN_OR_RETURN(buffers_.ready, stream.Record());
    ZEROTH_RETURN_IF_ERROR(calls_.Arrive(rank_, collective_.call, buffers_));
    absl::Status status;
    {
      // Peers wait for this even if memory runs out.
      const absl::Cleanup finish = [this] { calls_.Finish(rank_, /*wait_for_all=*/true); };
      status = EnqueueShare(calls_.buffers(), *mover, stream);
    }
    // A peer may read and write this rank's buffers until its own share is done.
    for (int peer = 0; peer < calls_.size() && status.ok(); ++peer) {
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
    if (HasData()) ZEROTH_RETURN_IF_ERROR(CopyRankPieces(collective_, rank_, ranks, mover));
    ZEROTH_ASSIGN_OR_RETURN(group_->share_done(rank_), stream.Record());
    return absl::OkStatus();
  }

  bool HasData() const { return collective_.call.count != 0; }
  bool PeersUseMyBuffers() const {
    return collective_.op != CollectiveOp::kBroadcast || rank_ == *collective_.call.root;
  }

  const std::shared_ptr<LocalGroup> group_;
  Rendezvous& calls_;
  const int rank_;
  const Collective collective_;
  LocalBuffers buffers_;
  const Stream& stream_;
  bool started_ = false;
};

// One rank's communicator of a LocalGroup. On CPU streams, the streams' threads meet for a call. On
// a device whose streams run behind the host, the ranks' host threads meet when they enqueue a
// call, and events alone order the device's work. So nothing on the device ever waits for a host,
// which could deadlock streams that share a hardware queue. On such devices all ranks must make the
// calls of all their communicators in the same order. Otherwise they run into the timeout.
class LocalCommunicator final : public CheckedCommunicator {
 public:
  explicit LocalCommunicator(LocalGroup::Seat seat)
      : group_(std::move(seat.group)), calls_(group_->calls()), rank_(seat.rank) {}
  ~LocalCommunicator() override { group_->Leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return calls_.size(); }
  std::string name() const override { return calls_.name(); }
  // Host threads meet at each call, so with several ranks a device cannot play calls alone.
  bool SupportsRecording() const override { return size() == 1; }
  absl::Status status() const override { return calls_.world().status(); }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override {
    ZEROTH_ASSIGN_OR_RETURN(LocalGroup::Seat seat, group_->Split(rank_, color, key));
    std::unique_ptr<Communicator> communicator;
    if (seat.group != nullptr) communicator = std::make_unique<LocalCommunicator>(std::move(seat));
    return communicator;
  }

 private:
  absl::Status Enqueue(absl::Span<Collective> collectives, const absl::Status& checked,
                       Stream& stream) override {
    for (Collective& collective : collectives) {
      ZEROTH_RETURN_IF_ERROR(EnqueueOne(std::move(collective), checked, stream));
    }
    return absl::OkStatus();
  }
  absl::Status EnqueueOne(Collective collective, const absl::Status& checked, Stream& stream) {
    ZEROTH_ASSIGN_OR_RETURN(collective.call.index, calls_.Issue(rank_));
    const std::string where =
        absl::StrCat("rank ", world_rank(), " failed: ", Describe(collective.call));
    if (!checked.ok()) {
      const absl::Status error = Annotate(checked, where);
      Break(error);
      return error;
    }
    Count(collective);
    const auto pending =
        std::make_shared<PendingCall>(group_, rank_, std::move(collective), stream);
    const bool on_host = dynamic_cast<CpuStream*>(&stream) != nullptr;
    const absl::Status status =
        on_host ? CpuStream::From(stream).Enqueue([pending] { return pending->Run(); })
                : pending->Enqueue(stream);
    // If the stream had failed before, the world is not broken yet.
    if (!status.ok()) Break(Annotate(status, where));
    return status;
  }
  int world_rank() const override { return calls_.world_rank(rank_); }
  void Break(const absl::Status& reason) override { calls_.world().Break(reason, world_rank()); }

  const std::shared_ptr<LocalGroup> group_;
  Rendezvous& calls_;
  const int rank_;
};

absl::Status CheckOptions(const LaunchOptions& options) {
  if (options.world_size < 1) {
    return InvalidArgument("world_size is ", options.world_size, ", expected at least 1 rank");
  }
  return CheckLaunchOptionsWithoutNccl(options, "local");
}

// The group of all ranks.
std::shared_ptr<LocalGroup> WorldGroup(const std::shared_ptr<WorldState>& world) {
  std::vector<int> ranks(static_cast<size_t>(world->size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::lock_guard<std::mutex> lock(world->mutex());
  return std::make_shared<LocalGroup>(world, std::move(ranks));
}

}  // namespace

absl::Status RunLocalRanks(const LaunchOptions& options, const RankMain& rank_main) {
  if (absl::Status checked = CheckOptions(options); !checked.ok()) return checked;
  const auto world = std::make_shared<WorldState>(options.world_size, options.timeout);
  const auto group = WorldGroup(world);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.world_size; ++rank) {
    absl::StatusOr<std::thread> thread =
        StartThread(absl::StrCat("rank ", rank, " of ", options.world_size), [&, rank] {
          LocalCommunicator communicator({group, rank});
          world->RankReturned(rank, RunRankMain(rank_main, communicator));
        });
    if (!thread.ok()) {
      world->RankReturned(rank, thread.status());
      break;
    }
    threads.push_back(*std::move(thread));
  }
  for (std::thread& thread : threads) thread.join();
  return world->RootCause();
}

absl::Status RunLocalRanks(int world_size, const RankMain& rank_main) {
  return RunLocalRanks({.world_size = world_size}, rank_main);
}

namespace {
const LauncherRegistration registration("local", [](const LaunchOptions& options,
                                                    const RankMain& rank_main) {
  return RunLocalRanks(options, rank_main);
});
}  // namespace

}  // namespace zeroth
