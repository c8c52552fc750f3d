// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The scheduler's gathers: when a unit is used, prefetched, or requested.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/scheduler.h"

namespace zeroth {
namespace {

absl::Status GatherMastersInto(std::vector<Tensor>& masters, const Unit& unit, Communicator& group,
                               Stream& comm) {
  std::vector<GatherBuffers> gathers;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const StateTensor shard = unit.ShardState(i);
    if (unit.is_replicated(i) && !shard.is_offloaded()) {
      masters.push_back(shard.tensor());
      continue;
    }
    const int64_t numel = unit.segment_layout(i).numel;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor full, Allocate(unit.device(), numel, shard.dtype(),
                                                        MemoryCategory::kGatheredParameters, comm));
    masters.push_back(full);
    Tensor mine = shard.tensor();
    if (shard.is_offloaded()) {
      const int64_t begin = unit.is_replicated(i) ? 0 : unit.shard_rank() * shard.numel();
      mine = full.View(begin, Shape({shard.numel()}));
      ZEROTH_RETURN_IF_ERROR(shard.Read(0, mine, comm));
    }
    if (!unit.is_replicated(i)) gathers.push_back({mine, full});
  }
  return group.AllGatherAll(gathers, comm, unit.name());
}

}  // namespace

absl::Status Scheduler::SetPrefetch(Unit& unit, std::vector<Unit*> next, Pass pass) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  for (const Unit* other : next) ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(other));
  (pass == Pass::kForward ? chosen(unit).forward : chosen(unit).backward) = std::move(next);
  return absl::OkStatus();
}

absl::Status Scheduler::Gather(Unit& unit) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  ZEROTH_RETURN_IF_ERROR(EnsureGathered(unit, Pass::kInference));
  ++track(unit).active;
  return absl::OkStatus();
}

absl::Status Scheduler::Reshard(Unit& unit) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  Track& in = track(unit);
  if (in.active == 0 && unit.state() == UnitState::kSharded) {
    return FailedPrecondition("unit '", unit.name(),
                              "': Reshard without Gather or Unshard; its parameters are ",
                              UnitStateName(unit.state()));
  }
  ZEROTH_RETURN_IF_ERROR(EnsureGathered(unit, Pass::kInference));  // it may be in flight
  in.active = std::max(0, in.active - 1);
  if (in.active > 0) return absl::OkStatus();
  ZEROTH_RETURN_IF_ERROR(
      strategy_.Reshard(unit, in.pending_backwards > 0 ? Pass::kForward : Pass::kInference));
  // Outside of a step nothing else frees buffers.
  return expects_backward_ ? absl::OkStatus() : Trim();
}

absl::StatusOr<std::vector<Tensor>> Scheduler::GatherMasters(const Unit& unit) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  ZEROTH_RETURN_IF_ERROR(WaitForShards());
  std::vector<Tensor> masters;
  absl::Status ready =
      GatherMastersInto(masters, unit, unit.mesh().owner_gather(), *gather_.stream);
  if (ready.ok()) {
    const absl::StatusOr<std::shared_ptr<Event>> gathered = gather_.stream->Record();
    ready = gathered.ok() ? device_.compute_stream().Wait(*gathered) : gathered.status();
  }
  if (!ready.ok()) gather_.stream->Synchronize().IgnoreError();  // it may still write the masters
  ZEROTH_RETURN_IF_ERROR_WITH(ready,
                              absl::StrCat("unit '", unit.name(), "': gathering parameters"));
  return masters;
}

absl::Status Scheduler::Prefetch(Unit& unit) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  if (!capabilities_.shards && unit.mesh().owner_count() == 1) {
    return InvalidArgument("unit '", unit.name(), "': strategy '", strategy_.name(),
                           "' keeps parameters replicated; there is nothing to prefetch");
  }
  if (unit.state() != UnitState::kSharded) {
    return InvalidArgument("unit '", unit.name(), "': cannot prefetch, it is already ",
                           UnitStateName(unit.state()));
  }
  return StartGather(unit, Pass::kForward);
}

absl::Status Scheduler::EnsureGathered(Unit& unit, Pass pass) {
  if (unit.state() == UnitState::kSharded) {
    ZEROTH_RETURN_IF_ERROR(MakeRoom(unit));
    ZEROTH_RETURN_IF_ERROR(StartGather(unit, pass));
  }
  kept_.erase(std::remove(kept_.begin(), kept_.end(), &unit), kept_.end());  // it is in use again
  if (unit.state() == UnitState::kGathering) {
    if (unit.gather_event() != nullptr) {
      ZEROTH_RETURN_IF_ERROR(ComputeWaits(unit.gather_event(), kWaitForGather, unit));
    }
    ZEROTH_RETURN_IF_ERROR(unit.FinishGather());
  }
  return unit.ExpectState(UnitState::kGathered, "compute");
}

bool Scheduler::InBackward() const {
  return std::any_of(tracks_.begin(), tracks_.end(),
                     [](const Track& in) { return in.in_backward > 0; });
}

// Frees units of kept_ until `unit` has a buffer within the limit, first those whose backward comes
// last: recomputation runs forwards in the reverse order of their backwards.
absl::Status Scheduler::MakeRoom(const Unit& unit) {
  const int64_t bytes = FullParameterBytes(unit);
  for (size_t i = 0; i < kept_.size() && !gathered_.HasRoom(unit, bytes);) {
    Unit& kept = *kept_[i];
    if (!gathered_.HasSizeFor(kept, bytes)) {
      ++i;
      continue;
    }
    kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    ZEROTH_RETURN_IF_ERROR(strategy_.Reshard(kept, Pass::kForward));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::WaitForShards() {
  // An optimizer may have enqueued writes to the shards.
  if (backward_finished_) {
    ZEROTH_ASSIGN_OR_RETURN(shards_ready_, device_.compute_stream().Record());
  }
  return shards_ready_ == nullptr ? absl::OkStatus() : gather_.stream->Wait(shards_ready_);
}

absl::Status Scheduler::StartGather(Unit& unit, Pass pass) {
  ZEROTH_RETURN_IF_ERROR(WaitForShards());
  ZEROTH_RETURN_IF_ERROR(MarkBegin(*gather_.stream, "gather", unit));
  ZEROTH_RETURN_IF_ERROR(strategy_.Gather(unit, pass, *gather_.stream));
  // An optimizer may enqueue writes to the shards while the gather reads them.
  if (backward_finished_ && unit.gather_event() != nullptr) {
    ZEROTH_RETURN_IF_ERROR(device_.compute_stream().Wait(unit.gather_event()));
  }
  return MarkEnd(*gather_.stream, "gather", unit);
}

absl::StatusOr<Scheduler::UnshardHandle> Scheduler::Unshard(Unit& unit, bool async) {
  ZEROTH_RETURN_IF_ERROR(ExpectKnownUnit(&unit));
  if (unit.state() == UnitState::kSharded) {
    ZEROTH_RETURN_IF_ERROR(StartGather(unit, Pass::kForward));
  }
  UnshardHandle handle(this, &unit);
  if (!async) ZEROTH_RETURN_IF_ERROR(handle.Wait());
  return handle;
}

absl::Status Scheduler::FinishUnshard(Unit& unit) {
  // A use in between has freed it.
  if (unit.state() == UnitState::kSharded) return absl::OkStatus();
  return EnsureGathered(unit, Pass::kForward);
}

absl::Status Scheduler::PrefetchAhead(const Unit& from, Pass pass) {
  const bool backward = pass == Pass::kBackward;
  const auto& choice = backward ? chosen(from).backward : chosen(from).forward;
  if (choice.has_value()) {
    for (Unit* next : *choice) {
      if (next->state() != UnitState::kSharded) continue;
      if (!backward) ZEROTH_RETURN_IF_ERROR(MakeRoom(*next));
      ZEROTH_RETURN_IF_ERROR(StartGather(*next, pass));
    }
    return absl::OkStatus();
  }
  Unit* const next = backward ? order_.NextInBackward(from) : order_.NextInForward(from);
  if (!options_.prefetch || next == nullptr || next->state() != UnitState::kSharded)
    return absl::OkStatus();
  // Skip units whose backward is done: when a checkpointed block is recomputed, its recorded
  // forward successor is already finished.
  if (track(*next).over || track(*next).complete) return absl::OkStatus();
  // The next forward of a recomputation comes before the backwards that units are kept for.
  if (!backward) ZEROTH_RETURN_IF_ERROR(MakeRoom(*next));
  // A prefetch only uses shared buffers: it must not cost memory.
  if (!gathered_.HasRoom(*next, FullParameterBytes(*next))) return absl::OkStatus();
  return StartGather(*next, pass);
}

absl::Status Scheduler::ReshardAll() {
  for (Unit* unit : units_) {
    if (unit->state() == UnitState::kGathering) {
      // The prefetch was not used. Wait for it before its buffer is reused, and do not repeat it.
      order_.ForgetLinksTo(*unit);
      ZEROTH_RETURN_IF_ERROR(EnsureGathered(*unit, Pass::kStepEnd));
    }
    if (unit->state() == UnitState::kGathered)
      ZEROTH_RETURN_IF_ERROR(strategy_.Reshard(*unit, Pass::kStepEnd));
    ZEROTH_RETURN_IF_ERROR(unit->ExpectState(UnitState::kSharded, "end the step"));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
