// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/comm/collective.h"
#include "zeroth/core/comm/comm_stats.h"
#include "zeroth/core/comm/communicator.h"

namespace zeroth {

// The common base of the back ends' communicators. It turns each operation into one or more
// collectives, checks the arguments, and hands them to Enqueue.
class CheckedCommunicator : public Communicator {
 public:
  absl::Status AllGather(BufferView send, BufferView recv, Stream& stream,
                         absl::string_view label) final;
  absl::Status ReduceScatter(BufferView send, BufferView recv, ReduceOp op, Stream& stream,
                             absl::string_view label, bool accumulate) final;
  absl::Status AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                         absl::string_view label) final;
  absl::Status AllToAll(BufferView send, BufferView recv, Stream& stream, absl::string_view label,
                        const AllToAllCounts& counts) final;
  absl::Status Broadcast(BufferView buffer, int root, Stream& stream,
                         absl::string_view label) final;
  absl::Status Barrier(Stream& stream, absl::string_view label) final;
  absl::Status AllGatherAll(absl::Span<const GatherBuffers> gathers, Stream& stream,
                            absl::string_view label) final;
  absl::Status ReduceScatterAll(absl::Span<const ReductionBuffers> reductions, ReduceOp op,
                                Stream& stream, absl::string_view label) final;
  void Abort(const absl::Status& reason) final;

  const CommStats& stats() const final { return *stats_; }
  CommStats& stats() final { return *stats_; }

 protected:
  // Enqueues `collectives`, which it may change: at least one; if several, then gathers or
  // reduce-scatters with one label, which may run as one operation. If `checked` is an error, this
  // rank's arguments are wrong: breaks the world with it instead, because the other ranks would
  // wait for a call that never comes.
  virtual absl::Status Enqueue(absl::Span<Collective> collectives, const absl::Status& checked,
                               Stream& stream) = 0;
  // This rank's number in the world.
  virtual int world_rank() const = 0;
  // Breaks the world with this rank's error, unless it is broken already.
  virtual void Break(const absl::Status& reason) = 0;

  // Returns the bytes that CommStats counts for a call, see CollectiveBytes.
  int64_t TrafficOf(const Collective& collective) const;
  void Count(const Collective& collective);
  const std::shared_ptr<CommStats>& shared_stats() const { return stats_; }
  // Describes a call in messages: "all_gather 'h.2' on mpi world ranks [0, 1]".
  std::string Describe(const CollectiveCall& call) const;

 private:
  // Calls Enqueue unless `collectives` is empty, and marks the calls.
  absl::Status Submit(absl::Span<Collective> collectives, const absl::Status& checked,
                      Stream& stream);

  const std::shared_ptr<CommStats> stats_ = std::make_shared<CommStats>();
};

}  // namespace zeroth
