// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_MPI_MPI_COMMUNICATOR_H_
#define ZEROTH_CORE_COMM_MPI_MPI_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/mpi/mpi_channel.h"
#include "zeroth/core/comm/mpi/mpi_collectives.h"

namespace zeroth::mpi {

// One rank's end of a group of processes, for CPU streams. Where a stream has a thread of its own,
// that thread meets the other ranks for a call, and waits while the engine moves its data.
class MpiCommunicator final : public Communicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  int rank() const override { return channel_->rank(); }
  int size() const override { return channel_->size(); }
  std::string name() const override { return channel_->name(); }

  absl::Status AllGather(BufferView send, BufferView recv, Stream& stream,
                         absl::string_view label) override;
  absl::Status ReduceScatter(BufferView send, BufferView recv, ReduceOp op, Stream& stream,
                             absl::string_view label, bool accumulate) override;
  absl::Status AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                         absl::string_view label) override;
  absl::Status AllToAll(BufferView send, BufferView recv, Stream& stream, absl::string_view label,
                        const AllToAllCounts& counts) override;
  absl::Status Broadcast(BufferView buffer, int root, Stream& stream,
                         absl::string_view label) override;
  absl::Status Barrier(Stream& stream, absl::string_view label) override;

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  void Abort(const absl::Status& reason) override;
  absl::Status status() const override { return channel_->processes().status(); }

  const CommStats& stats() const override { return stats_; }
  CommStats& stats() override { return stats_; }

 private:
  // Enqueues it unless this rank's own arguments are wrong (`checked`), which breaks the world: the
  // others wait for a call that cannot come. `full` is the buffer whose size the account is about.
  absl::Status Enqueue(Collective collective, const absl::Status& checked, const BufferView& full,
                       Stream& stream);

  const std::shared_ptr<Channel> channel_;
  uint64_t enqueued_ = 0;
  CommStats stats_;
};

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_COMMUNICATOR_H_
