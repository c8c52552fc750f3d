// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CORE_COMM_LOCAL_LOCAL_COMMUNICATOR_H_
#define ZEROTH_CORE_COMM_LOCAL_LOCAL_COMMUNICATOR_H_

#include <memory>
#include <string>

#include "zeroth/core/comm/collective_call.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/comm/local/local_group.h"

namespace zeroth {

// One rank's end of a LocalGroup. On CPU streams calls meet on the streams' threads. On a device
// whose streams run behind the host, the ranks' hosts meet when they enqueue a call, and the
// device's work is ordered by events alone: nothing on the device ever waits for a host, which
// streams that share a hardware queue could turn into a deadlock. There the calls of all
// communicators of a rank must be made in one order on all ranks; otherwise they run into the
// timeout.
class LocalCommunicator final : public Communicator {
 public:
  explicit LocalCommunicator(LocalGroup::Seat seat);
  ~LocalCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string name() const override { return group_->name(); }
  // Ranks' hosts meet at each call, and their devices' work waits for each other's.
  bool SupportsRecording() const override { return size() == 1; }

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
  absl::Status status() const override;

  const CommStats& stats() const override { return stats_; }
  CommStats& stats() override { return stats_; }

 private:
  // Enqueues `call` unless this rank's own arguments are wrong (`checked`), which breaks the world:
  // the others are waiting for a call that cannot come. `full` is the buffer whose size the account
  // is about.
  absl::Status Enqueue(CollectiveOp op, const absl::Status& checked, CollectiveCall call,
                       const LocalBuffers& buffers, const BufferView& full, Stream& stream);

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
  CommStats stats_;
};

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_LOCAL_COMMUNICATOR_H_
