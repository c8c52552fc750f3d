// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One communicator's way to the other ranks: agreement first, then messages.

#ifndef ZEROTH_CORE_COMM_MPI_MPI_CHANNEL_H_
#define ZEROTH_CORE_COMM_MPI_MPI_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/mpi/mpi_engine.h"
#include "zeroth/core/comm/process/process_world.h"
#include "zeroth/core/device/device.h"

namespace zeroth::mpi {

// The communicator and its enqueued calls share it: when the last of them is gone, the other ranks
// learn that this one makes no further calls.
//
// Messages of a channel carry the number of its group as their tag. MPI_Comm_split would set them
// apart as well, but waits inside the library for all ranks, and nothing could end that wait when
// one of them is lost; groups and their numbers come from the coordinator instead, which watches
// the time.
//
// Ranks are those of the group. Calls come from one thread at a time.
class Channel {
 public:
  // ResourceExhausted where the library has no tag for the group.
  static absl::StatusOr<std::shared_ptr<Channel>> Create(std::shared_ptr<ProcessWorld> processes,
                                                         Engine& engine, ProcessWorld::Seat seat);
  ~Channel();

  int rank() const { return seat_.rank; }
  int size() const { return static_cast<int>(seat_.world_ranks.size()); }
  uint32_t group() const { return seat_.group; }
  const std::string& name() const { return name_; }
  ProcessWorld& processes() const { return *processes_; }
  const std::shared_ptr<ProcessWorld>& shared_processes() const { return processes_; }
  Engine& engine() const { return engine_; }

  // Waits until all ranks have come to `call`. Either all of them return OK, and then all have to
  // move its data, or none does.
  absl::Status Agree(const CollectiveCall& call);
  // Begins to move messages of `call`; peers are ranks of the group.
  std::shared_ptr<Engine::Exchange> Start(std::vector<Message> messages);
  // Waits for them. When the world breaks meanwhile, ranks that live still finish what they have
  // agreed on; after a moment's grace the others are taken for lost, and MPI is abandoned: in case
  // of an error, no message touches memory any more. So it does not return while the engine's
  // thread hangs in the library: then the world's last resort ends the process.
  absl::Status Finish(const Engine::Exchange& exchange, const CollectiveCall& call);
  absl::Status Move(std::vector<Message> messages, const CollectiveCall& call) {
    return Finish(*Start(std::move(messages)), call);
  }

  // Memory of `stream`'s device that is free until the next call.
  absl::StatusOr<char*> Scratch(size_t bytes, Stream& stream);

 private:
  Channel(std::shared_ptr<ProcessWorld> processes, Engine& engine, ProcessWorld::Seat seat);

  const std::shared_ptr<ProcessWorld> processes_;
  Engine& engine_;
  const ProcessWorld::Seat seat_;
  const std::string name_;
  std::shared_ptr<Buffer> scratch_;
};

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_CHANNEL_H_
