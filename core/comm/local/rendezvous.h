// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of a group meet for a call: all present with matching calls, or an error on all.

#ifndef ZEROTH_CORE_COMM_LOCAL_RENDEZVOUS_H_
#define ZEROTH_CORE_COMM_LOCAL_RENDEZVOUS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local_world.h"

namespace zeroth {

// What a rank shows its peers for one call.
struct LocalBuffers {
  BufferView send;
  BufferView recv;
  bool accumulate = false;
  // When they may be used, on devices where the host runs ahead; null: now.
  std::shared_ptr<Event> ready = nullptr;
};

// A call has two meetings. Arrive: each rank publishes its call and buffers, and goes on when all
// have. Then data moves, without the lock. Finish: a rank whose buffers peers may still touch waits
// until they have all finished.
//
// Once all ranks have arrived, nothing can stop the call: every rank moves its data and finishes,
// even if the world breaks meanwhile, so nobody frees memory that a peer is reading. Before that, a
// break lets nobody through.
//
// `rank` is a rank of the group; each rank's calls come from one thread at a time. Thread-safe
// across ranks.
class Rendezvous final : public LocalWorld::Channel {
 public:
  // Group rank r is rank world_ranks[r] of the world. `name` is the communicator's. The world's
  // mutex must be held.
  Rendezvous(std::shared_ptr<LocalWorld> world, std::vector<int> world_ranks, std::string name);
  ~Rendezvous() override;

  int size() const { return static_cast<int>(world_ranks_.size()); }

  // Promises one more call by `rank` and returns its index. The world's error if it is broken.
  absl::StatusOr<uint64_t> Issue(int rank);

  // Waits for all ranks' calls. `when_complete`, if any, runs on the last rank to arrive, with the
  // world's mutex held, before anyone goes on. FailedPrecondition if calls differ or a missing rank
  // will never call; DeadlineExceeded after the world's timeout. Each such error breaks the world.
  absl::Status Arrive(int rank, const CollectiveCall& call, const LocalBuffers& buffers,
                      const std::function<void()>& when_complete = nullptr);

  // Between Arrive and Finish: what each rank has published. Only entries of ranks that wait in
  // Finish may be used.
  absl::Span<const LocalBuffers> buffers() const { return buffers_; }

  // To be called exactly once after each Arrive that returned OK. With `wait_for_all`, returns when
  // all ranks have called it.
  void Finish(int rank, bool wait_for_all);

  // `rank` makes no further calls here: its communicator is gone.
  void Leave(int rank);

  void WakeLocked() override;
  std::string DescribeWaitForLocked(int world_rank) const override;
  std::string DescribeWaitOfLocked(int world_rank) const override;

 private:
  struct Member {
    uint64_t issued = 0;
    uint64_t arrived = 0;
    CollectiveCall last_call;  // the one that arrived last
    bool left = false;
  };

  // Counts ranks through one meeting after another.
  struct Meeting {
    int present = 0;
    std::atomic<uint64_t> completed{0};
  };

  bool IsWaiting(const Member& member) const { return member.arrived > arrivals_.completed; }
  std::string RankName(int rank) const;
  absl::Status CheckMatchLocked(int rank, const CollectiveCall& call) const;
  // Group rank of one that will never make the call after `completed` ones; -1 if there is none.
  int FindDepartedLocked(uint64_t completed) const;
  std::string DescribeDepartureLocked(int departed, int waiting) const;
  std::string DescribeMemberLocked(int rank) const;
  absl::Status TimeoutLocked(const CollectiveCall& call) const;
  // Advances `meeting`; true for the rank that completes it.
  bool JoinLocked(Meeting& meeting);
  void SpinUntil(const Meeting& meeting, uint64_t target) const;

  const std::shared_ptr<LocalWorld> world_;
  const std::vector<int> world_ranks_;
  const std::string name_;
  std::condition_variable changed_;
  std::vector<Member> members_;
  // Apart from members_, because ranks read it without the mutex while data moves.
  std::vector<LocalBuffers> buffers_;
  Meeting arrivals_;
  Meeting finishes_;
  int first_to_arrive_ = 0;  // at the current meeting
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_RENDEZVOUS_H_
