// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/checked_communicator.h"

#include <cstdint>
#include <string>
#include <vector>

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

absl::Status CheckedCommunicator::AllGather(BufferView send, BufferView recv, Stream& stream,
                                            absl::string_view label) {
  return AllGatherAll({{send, recv}}, stream, label);
}

absl::Status CheckedCommunicator::AllGatherAll(absl::Span<const GatherBuffers> gathers,
                                               Stream& stream, absl::string_view label) {
  absl::Status checked;
  std::vector<Collective> collectives;
  for (const auto& [send, recv] : gathers) {
    checked.Update(CheckAllGather(send, recv, rank(), size()));
    collectives.push_back(Make(CollectiveOp::kAllGather, send.count, send, recv, label));
  }
  return Submit(absl::MakeSpan(collectives), checked, stream);
}

absl::Status CheckedCommunicator::ReduceScatter(BufferView send, BufferView recv, ReduceOp op,
                                                Stream& stream, absl::string_view label,
                                                bool accumulate) {
  return ReduceScatterAll({{send, recv, accumulate}}, op, stream, label);
}

absl::Status CheckedCommunicator::ReduceScatterAll(absl::Span<const ReductionBuffers> reductions,
                                                   ReduceOp op, Stream& stream,
                                                   absl::string_view label) {
  absl::Status checked;
  std::vector<Collective> collectives;
  for (const auto& [send, recv, accumulate] : reductions) {
    checked.Update(CheckReduceScatter(send, recv, op, accumulate, rank(), size()));
    collectives.push_back(Make(CollectiveOp::kReduceScatter, recv.count, send, recv, label));
    collectives.back().call.reduce = op;
    collectives.back().accumulate = accumulate;
  }
  return Submit(absl::MakeSpan(collectives), checked, stream);
}

absl::Status CheckedCommunicator::AllReduce(BufferView buffer, ReduceOp op, Stream& stream,
                                            absl::string_view label) {
  Collective collective = Make(CollectiveOp::kAllReduce, buffer.count, buffer, buffer, label);
  collective.call.reduce = op;
  return Submit({&collective, 1}, CheckAllReduce(buffer, op), stream);
}

absl::Status CheckedCommunicator::AllToAll(BufferView send, BufferView recv, Stream& stream,
                                           absl::string_view label, const AllToAllCounts& counts) {
  const int64_t count = counts.uneven() ? kUnevenCount : send.count;
  Collective collective = Make(CollectiveOp::kAllToAll, count, send, recv, label);
  collective.counts = counts;
  return Submit({&collective, 1}, CheckAllToAll(send, recv, size(), counts), stream);
}

absl::Status CheckedCommunicator::Broadcast(BufferView buffer, int root, Stream& stream,
                                            absl::string_view label) {
  Collective collective = Make(CollectiveOp::kBroadcast, buffer.count, buffer, buffer, label);
  collective.call.root = root;
  return Submit({&collective, 1}, CheckBroadcast(buffer, root, size()), stream);
}

absl::Status CheckedCommunicator::Barrier(Stream& stream, absl::string_view label) {
  Collective collective = Make(CollectiveOp::kBarrier, 0, {}, {}, label);
  return Submit({&collective, 1}, absl::OkStatus(), stream);
}

absl::Status CheckedCommunicator::Submit(absl::Span<Collective> collectives,
                                         const absl::Status& checked, Stream& stream) {
  if (collectives.empty()) return absl::OkStatus();
  if (!checked.ok()) return Enqueue(collectives, checked, stream);
  int64_t bytes = 0;
  for (const Collective& collective : collectives) bytes += TrafficOf(collective);
  const CollectiveCall& call = collectives.front().call;
  return TimedWait(
      stats_->timeline(), stream, call.operation, call.label,
      [&] { return Enqueue(collectives, absl::OkStatus(), stream); }, bytes);
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
