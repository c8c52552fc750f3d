// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_STRATEGIES_BUFFER_SET_H_
#define ZEROTH_STRATEGIES_BUFFER_SET_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {

// Uninitialised memory that `writer` may write: an allocator hands out memory whose last use the
// compute stream may still have before it, so any other stream waits for that.
absl::StatusOr<Tensor> AllocateBytes(Device& device, int64_t bytes, MemoryCategory category,
                                     Stream& writer);

// A fixed set of buffers, equally large in each class of sizes, that units use one after the other,
// so that peak memory is a formula and never fragments. A buffer given back carries the event of
// its last use; whoever takes it next waits for that event on the stream that will write it, so the
// host never waits. What goes back to the allocator does so in the order of the compute stream,
// which is the order in which the allocator hands memory out again. Used by one rank's thread only.
//
// Where a transport can be told of memory (Communicator::Register), buffers within the limit are:
// they then stay the set's for as long as it lives.
class BufferSet {
 public:
  // Buffers are allocated when first needed, each of one of `sizes` (bytes, at least one of them),
  // at most `limit` of each unless Acquire has to go beyond.
  BufferSet(Device& device, MemoryCategory category, std::vector<int64_t> sizes, int limit);
  // The transport of these groups, whose collectives use the buffers, is told of buffers that are
  // allocated from now on. Acquire is then collective where it allocates, so that all ranks of the
  // groups have to make the same calls. No calls use the buffers when the set goes.
  void RegisterWith(std::vector<Communicator*> groups) { groups_ = std::move(groups); }

  // True if Acquire would stay within the limit: a buffer is free or may still be allocated.
  bool HasRoom(int64_t bytes);
  // A buffer of the smallest size that holds `bytes`; `stream` waits until its last user has
  // finished. If all are in use, a further one is allocated: what must run has to run, limits are
  // for what runs ahead. A request above the set's sizes gets a buffer of its own. After an error
  // the set is as before.
  absl::StatusOr<Tensor> Acquire(int64_t bytes, Stream& stream);
  // Gives back; `last_use` may be nullptr for "done".
  void Release(Tensor buffer, std::shared_ptr<Event> last_use);
  // Gives the free buffers that no transport knows to the allocator once the compute stream has
  // waited for their last users, also if one of those failed; then its error.
  absl::Status Trim();

 private:
  struct Free {
    Tensor buffer;
    std::shared_ptr<Event> last_use;
  };
  struct SizeClass {
    int64_t bytes = 0;
    int in_use = 0;
    std::deque<Free> free = {};  // oldest first: its event is the likeliest to be done
  };
  // A buffer that a transport knows.
  struct Registered {
    Tensor buffer;
    std::vector<std::unique_ptr<MemoryRegistration>> with = {};  // goes before the memory
  };

  // A buffer for as long as the set lives; undefined if no transport wants to know of it.
  absl::StatusOr<Tensor> AllocateRegistered(int64_t bytes);
  bool IsRegistered(const Tensor& buffer) const;
  // The first class whose buffers hold `bytes`; nullptr if there is none.
  SizeClass* ClassOf(int64_t bytes);

  Device& device_;
  MemoryCategory category_;
  std::vector<SizeClass> classes_;  // by size
  int limit_;
  std::vector<Communicator*> groups_;
  std::vector<Registered> registered_;
};

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_BUFFER_SET_H_
