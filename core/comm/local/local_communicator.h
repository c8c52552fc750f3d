// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_LOCAL_LOCAL_COMMUNICATOR_H_
#define ZEROTH_CORE_COMM_LOCAL_LOCAL_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "zeroth/core/comm/checked_communicator.h"
#include "zeroth/core/comm/local/local_group.h"

namespace zeroth {

// One rank's communicator of a LocalGroup. On CPU streams, the streams' threads meet for a call. On
// a device whose streams run behind the host, the ranks' host threads meet when they enqueue a
// call, and events alone order the device's work. So nothing on the device ever waits for a host,
// which could deadlock streams that share a hardware queue. On such devices all ranks must make the
// calls of all their communicators in the same order. Otherwise they run into the timeout.
class LocalCommunicator final : public CheckedCommunicator {
 public:
  explicit LocalCommunicator(LocalGroup::Seat seat);
  ~LocalCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string name() const override { return group_->name(); }
  // Host threads meet at each call, so with several ranks a device cannot play calls alone.
  bool SupportsRecording() const override { return size() == 1; }
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key) override;
  absl::Status status() const override;

 private:
  absl::Status Enqueue(Collective collective, const absl::Status& checked, Stream& stream) override;
  int world_rank() const override { return group_->world_rank(rank_); }
  void Break(const absl::Status& reason) override { group_->world().Break(reason, world_rank()); }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_LOCAL_COMMUNICATOR_H_
