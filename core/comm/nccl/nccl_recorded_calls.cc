// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/nccl/nccl_recorded_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::nccl {

void RecordedCalls::Add(CollectiveOp op, int64_t bytes, const CollectiveCall& call) {
  calls_.push_back({op, bytes, call});
}

absl::Status RecordedCalls::BeforePlay(cuda::CudaStream& stream) {
  ProcessWorld& processes = shared_.world->processes();
  ZEROTH_RETURN_IF_ERROR(processes.status());
  const CollectiveCall& first = calls_.front().call;
  play_ = {};
  play_.operation = kPlayOperation;
  play_.label =
      absl::StrCat(first.operation, " ", first.label, " and ", calls_.size() - 1, " more");
  ZEROTH_ASSIGN_OR_RETURN(number_, processes.Post(shared_.group, play_));
  play_.index = number_ - 1;
  for (const Call& call : calls_) shared_.stats->Add(call.op, call.bytes, call.call.label);
  const LastCall& last = *shared_.last_call;
  absl::Status ordered;
  if (last.stream != &stream && last.end != nullptr) ordered = stream.Wait(last.end);
  absl::StatusOr<std::shared_ptr<Event>> begin = stream.Record();
  ordered.Update(begin.status());
  // The other ranks wait for what this one does not play.
  if (!ordered.ok()) return processes.Fail(ordered, play_.ToString());
  begin_ = *std::move(begin);
  // Before the end is recorded, so that whoever waits for that awaits the agreement, too.
  stream.Require(shared_.agreement, number_);
  return absl::OkStatus();
}

absl::Status RecordedCalls::AfterPlay(cuda::CudaStream& stream, const std::shared_ptr<Event>& end) {
  shared_.traffic->Add(play_, number_, std::exchange(begin_, nullptr), end);
  *shared_.last_call = {&stream, end};
  return absl::OkStatus();
}

}  // namespace zeroth::nccl
