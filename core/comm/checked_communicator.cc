// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/checked_communicator.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/collective.h"
#include "zeroth/core/device/timeline.h"

namespace zeroth {
namespace {

Collective Make(CollectiveOp op, int64_t count, const BufferView& send, const BufferView& recv,
                absl::string_view label) {
  Collective collective = {op, {}, send, recv};
  collective.call.operation = CollectiveOpName(op);
  collective.call.count = count;
  if (op != CollectiveOp::kBarrier) collective.call.dtype = send.dtype;
  collective.call.label = std::string(label);
  return collective;
}

}  // namespace

Collective CheckedCommunicator::AllGatherOf(const BufferView& send, const BufferView& recv,
                                            absl::string_view label) {
  return Make(CollectiveOp::kAllGather, send.count, send, recv, label);
}

absl::Status CheckedCommunicator::AllGather(BufferView send, BufferView recv, Stream& stream,
                                            absl::string_view label) {
  return Submit(AllGatherOf(send, recv, label), CheckAllGather(send, recv, rank(), size()), stream);
}

Collective CheckedCommunicator::ReduceScatterOf(const BufferView& send, const BufferView& recv,
                                                ReduceOp op, absl::string_view label,
                                                bool accumulate) {
  Collective collective = Make(CollectiveOp::kReduceScatter, recv.count, send, recv, label);
  collective.call.reduce = op;
  collective.accumulate = accumulate;
  return collective;
}

absl::Status CheckedCommunicator::ReduceScatter(BufferView send, BufferView recv, ReduceOp op,
                                                Stream& stream, absl::string_view label,
                                                bool accumulate) {
  return Submit(ReduceScatterOf(send, recv, op, label, accumulate),
                CheckReduceScatter(send, recv, op, accumulate, rank(), size()), stream);
}

absl::Status CheckedCommunicator::AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                                            absl::string_view label) {
  Collective collective = Make(CollectiveOp::kAllReduce, buffer.count, buffer, buffer, label);
  collective.call.reduce = op;
  return Submit(std::move(collective), CheckAllReduce(buffer, op), stream);
}

absl::Status CheckedCommunicator::AllToAll(BufferView send, BufferView recv, Stream& stream,
                                           absl::string_view label, const AllToAllCounts& counts) {
  const int64_t count = counts.uneven() ? kUnevenCount : send.count;
  Collective collective = Make(CollectiveOp::kAllToAll, count, send, recv, label);
  collective.counts = counts;
  return Submit(std::move(collective), CheckAllToAll(send, recv, size(), counts), stream);
}

absl::Status CheckedCommunicator::Broadcast(BufferView buffer, int root, Stream& stream,
                                            absl::string_view label) {
  Collective collective = Make(CollectiveOp::kBroadcast, buffer.count, buffer, buffer, label);
  collective.call.root = root;
  return Submit(std::move(collective), CheckBroadcast(buffer, root, size()), stream);
}

absl::Status CheckedCommunicator::Barrier(Stream& stream, absl::string_view label) {
  return Submit(Make(CollectiveOp::kBarrier, 0, {}, {}, label), absl::OkStatus(), stream);
}

absl::Status CheckedCommunicator::Submit(Collective collective, const absl::Status& checked,
                                         Stream& stream) {
  if (!checked.ok()) return Enqueue(std::move(collective), checked, stream);
  const int64_t bytes = TrafficOf(collective);
  return TimedWait(
      stats_->timeline(), stream, collective.call.operation, collective.call.label,
      [&] { return Enqueue(std::move(collective), absl::OkStatus(), stream); }, bytes);
}

void CheckedCommunicator::Abort(const absl::Status& reason) {
  ZEROTH_CHECK(!reason.ok());
  Break(Annotate(reason, absl::StrCat("rank ", world_rank(), " aborted")));
}

int64_t CheckedCommunicator::TrafficOf(const Collective& collective) const {
  if (collective.counts.uneven()) {
    return ByteSize(collective.send) -
           ByteSize(PieceOf(collective.send, collective.counts.send, rank(), size()));
  }
  const BufferView& full =
      collective.op == CollectiveOp::kAllGather ? collective.recv : collective.send;
  return CollectiveBytes(collective.op, ByteSize(full), size());
}

void CheckedCommunicator::Count(const Collective& collective) {
  stats_->Add(collective.op, TrafficOf(collective), collective.call.label);
}

std::string CheckedCommunicator::Describe(const CollectiveCall& call) const {
  return absl::StrCat(call.operation, " '", call.label, "' on ", name());
}

}  // namespace zeroth
