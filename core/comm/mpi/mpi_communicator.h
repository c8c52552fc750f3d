// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_MPI_MPI_COMMUNICATOR_H_
#define ZEROTH_CORE_COMM_MPI_MPI_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/comm/checked_communicator.h"
#include "zeroth/core/comm/mpi/mpi_channel.h"

namespace zeroth::mpi {

// One rank's communicator of a group of processes, for CPU streams. A stream's own thread meets the
// other ranks for a call, and waits while the engine moves the data.
class MpiCommunicator final : public CheckedCommunicator {
 public:
  explicit MpiCommunicator(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  int rank() const override { return channel_->rank(); }
  int size() const override { return channel_->size(); }
  std::string name() const override { return channel_->name(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  absl::Status status() const override { return channel_->processes().status(); }

 private:
  absl::Status Enqueue(Collective collective, const absl::Status& checked, Stream& stream) override;
  int world_rank() const override { return channel_->processes().rank(); }
  void Break(const absl::Status& reason) override { channel_->processes().Break(reason); }

  const std::shared_ptr<Channel> channel_;
  uint64_t enqueued_ = 0;
};

}  // namespace zeroth::mpi

#endif  // ZEROTH_CORE_COMM_MPI_MPI_COMMUNICATOR_H_
