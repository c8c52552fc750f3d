// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Connects one communicator to the other ranks: they agree on a call, then they exchange messages
// that move its data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/mpi/mpi_engine.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/comm/two_level.h"
#include "zeroth/core/device/device.h"

namespace zeroth::mpi {

// The communicator and its enqueued calls share the channel. When the last of them is destroyed,
// the other ranks learn that this one makes no further calls.
//
// The tag of a channel's messages is the number of its group. MPI_Comm_split would separate groups
// as well, but it waits inside the library for all ranks, and nothing could end that wait if a rank
// is lost. So groups and their numbers come from the coordinator, which enforces the timeout.
//
// Ranks are those of the group. Calls come from one thread at a time.
class Channel {
 public:
  // ResourceExhausted if the library has no tag for the group.
  static absl::StatusOr<std::shared_ptr<Channel>> Create(std::shared_ptr<ProcessWorld> processes,
                                                         Engine& engine, ProcessWorld::Seat seat);
  ~Channel();

  int rank() const { return seat_.rank; }
  int size() const { return static_cast<int>(seat_.world_ranks.size()); }
  NodeGrid grid() const { return {rank(), size(), per_node_}; }
  uint32_t group() const { return seat_.group; }
  const std::string& name() const { return name_; }
  ProcessWorld& processes() const { return *processes_; }
  const std::shared_ptr<ProcessWorld>& shared_processes() const { return processes_; }
  Engine& engine() const { return engine_; }

  // Waits until all ranks have arrived at `calls`, which ranks group in the same way. Returns OK on
  // all ranks or on none. After OK, all ranks must move the calls' data.
  absl::Status Agree(std::vector<CollectiveCall> calls);
  // Starts to move messages of a call.
  std::shared_ptr<Engine::Exchange> Start(absl::Span<const RankMessage> messages);
  // Waits for the messages. If the world breaks meanwhile, living ranks still finish the call that
  // they agreed on. After a few seconds the other ranks count as lost, and MPI is abandoned. So
  // after an error no message touches memory any more. Finish does not return while the engine's
  // thread hangs in the library: then the world's watchdog ends the process.
  absl::Status Finish(Engine::Exchange& exchange, const CollectiveCall& call);
  absl::Status Move(absl::Span<const RankMessage> messages, const CollectiveCall& call) {
    return Finish(*Start(messages), call);
  }

  // Returns scratch memory of the stream's device, valid until the next call.
  absl::StatusOr<char*> Scratch(size_t bytes, Stream& stream);

 private:
  Channel(std::shared_ptr<ProcessWorld> processes, Engine& engine, ProcessWorld::Seat seat);

  const std::shared_ptr<ProcessWorld> processes_;
  Engine& engine_;
  const ProcessWorld::Seat seat_;
  const std::string name_;
  const int per_node_;
  std::shared_ptr<Buffer> scratch_;
};

// Returns the bytes of scratch that MoveData needs on a channel. `collective` must have passed the
// checks of collective.h.
size_t ScratchBytes(const Collective& collective, const NodeGrid& grid);

// Moves the data of a collective by messages between host memories. All ranks of the channel must
// have agreed on the call. All-gathers and all-to-alls send each byte straight to its place. A
// broadcast uses a binomial tree. Reductions exchange pieces all-to-all in blocks, and add them in
// the fixed tree of communicator.h. While one block is added, the next one arrives. In a group of
// equal nodes (process/node.h), reductions, and large gathers, exchange data inside nodes and then
// across them (two_level.h).
absl::Status MoveData(const Collective& collective, Channel& channel, char* scratch);

}  // namespace zeroth::mpi
