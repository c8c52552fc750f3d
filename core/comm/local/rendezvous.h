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

#include "zeroth/core/comm/call_ledger.h"
#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {

// What a rank shows its peers for one call.
struct LocalBuffers {
  BufferView send;
  BufferView recv;
  bool accumulate = false;
  // When they may be used, on devices where the host runs ahead; null: now.
  std::shared_ptr<Event> ready = nullptr;
  AllToAllCounts counts = {};
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
class Rendezvous final : public CallLedger {
 public:
  // As CallLedger's.
  Rendezvous(std::shared_ptr<WorldState> world, std::vector<int> world_ranks, std::string name);
  ~Rendezvous() override;

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

 private:
  // Polls for a moment until `counter` has reached `target`.
  void SpinUntil(const std::atomic<uint64_t>& counter, uint64_t target) const;

  // Waiting threads may poll before they sleep; without a core for each rank that would only keep
  // the rank that is waited for from running.
  const bool may_spin_;
  std::condition_variable changed_;
  // Apart from the ledger, because ranks read it without the mutex while data moves.
  std::vector<LocalBuffers> buffers_;
  std::atomic<uint64_t> arrived_{0};   // calls that all ranks have arrived at, for those who poll
  int finishing_ = 0;                  // ranks that have finished the call under way
  std::atomic<uint64_t> finished_{0};  // calls that all ranks have finished
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_RENDEZVOUS_H_
