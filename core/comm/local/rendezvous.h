// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Where the ranks of a group meet for a call. Either all ranks arrive with matching calls, or all
// of them get an error.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/call_ledger.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/world_state.h"

namespace zeroth {

// The buffers that a rank shows its peers for one call.
struct LocalBuffers {
  BufferView send;
  BufferView recv;
  // The event after which they may be used, on devices that run behind the host. Null: at once.
  std::shared_ptr<Event> ready = nullptr;
  AllToAllCounts counts = {};
};

// A call has two meetings. In Arrive, each rank publishes its call and its buffers, and continues
// once all ranks have. Then the ranks move data, without the lock. In Finish, a rank whose buffers
// peers may still use waits until all ranks have finished.
//
// Once all ranks have arrived, every rank moves its data and finishes, even if the world breaks
// meanwhile. So no rank frees memory that a peer is reading. If the world breaks earlier, no rank
// moves data.
//
// `rank` is a rank of the group; each rank's calls come from one thread at a time. Thread-safe
// across ranks.
class Rendezvous final : public CallLedger {
 public:
  // The arguments are those of CallLedger's constructor.
  Rendezvous(std::shared_ptr<WorldState> world, std::vector<int> world_ranks, std::string name);

  // `rank` issues a call. Returns the call's index, or the world's error.
  absl::StatusOr<uint64_t> Issue(int rank);

  // Waits for all ranks' calls. `when_complete`, if any, runs on the last rank to arrive, with the
  // world's mutex held, before any rank continues. FailedPrecondition if calls differ, or if a
  // missing rank will never call. DeadlineExceeded after the world's timeout. Both break the world.
  absl::Status Arrive(int rank, const CollectiveCall& call, const LocalBuffers& buffers,
                      const std::function<void()>& when_complete = nullptr);

  // The buffers that each rank has published, to be read between Arrive and Finish. Only entries of
  // ranks that wait in Finish may be used.
  absl::Span<const LocalBuffers> buffers() const { return buffers_; }

  // Must be called exactly once after each Arrive that returned OK. With `wait_for_all`, returns
  // when all ranks have called it.
  void Finish(int rank, bool wait_for_all);

  // `rank` has destroyed its communicator and makes no further calls here.
  void Leave(int rank);

 private:
  // Polls for a moment, or until `counter` has reached `target`.
  void SpinUntil(const std::atomic<uint64_t>& counter, uint64_t target) const;

  // True if waiting threads poll before they sleep. With fewer cores than ranks, polling would only
  // keep the missing rank from running.
  const bool may_spin_;
  // Not in the ledger, because ranks read it without the mutex while data moves.
  std::vector<LocalBuffers> buffers_;
  std::atomic<uint64_t> arrived_{0};   // calls that all ranks have arrived at, for polling
  int finishing_ = 0;                  // ranks that have finished the current call
  std::atomic<uint64_t> finished_{0};  // calls that all ranks have finished
};

}  // namespace zeroth
