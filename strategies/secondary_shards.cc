// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/secondary_shards.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// This rank's part of a segment's full parameters; all of it where every rank has all.
Tensor PartOf(const Unit& unit, int segment, const Communicator& group) {
  const Tensor& full = unit.segment(segment).full;
  if (unit.is_whole(segment)) return full;
  const int64_t numel = full.numel() / group.size();
  return full.View(group.rank() * numel, Shape({numel}));
}

}  // namespace

bool SecondaryShards::Holds(const Unit& unit) const {
  const size_t index = static_cast<size_t>(unit.index());
  return index < held_.size() && held_[index].copied != nullptr;
}

absl::Status SecondaryShards::Keep(Unit& unit) {
  if (Holds(unit)) return FreeGathered(unit, buffers_);
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kGathered, "reshard to a smaller group"));
  Stream& compute = unit.device().compute_stream();
  Held held;
  for (int i = 0; i < unit.segment_count(); ++i) {
    held.parts.emplace_back();
    if (unit.is_full(i)) continue;
    const Tensor part = PartOf(unit, i, group_);
    ZEROTH_ASSIGN_OR_RETURN(held.parts.back(),
                            Tensor::Empty(unit.device(), part.shape(), part.dtype(),
                                          MemoryCategory::kGatheredParameters));
    ZEROTH_RETURN_IF_ERROR(
        unit.device().Copy(held.parts.back().raw_data(), part.raw_data(), part.bytes(), compute));
  }
  ZEROTH_ASSIGN_OR_RETURN(held.copied, compute.Record());
  const size_t index = static_cast<size_t>(unit.index());
  if (held_.size() <= index) held_.resize(index + 1);
  held_[index] = std::move(held);
  return FreeGathered(unit, buffers_);
}

absl::Status SecondaryShards::Gather(Unit& unit, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kSharded, "gather"));
  const Held& held = held_[static_cast<size_t>(unit.index())];
  ZEROTH_RETURN_IF_ERROR(comm.Wait(held.copied));
  ZEROTH_RETURN_IF_ERROR(AcquireFullParameters(unit, buffers_, comm));
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_full(i)) continue;
    const Tensor part = PartOf(unit, i, group_);
    const Tensor& kept = held.parts[static_cast<size_t>(i)];
    ZEROTH_RETURN_IF_ERROR(
        unit.device().Copy(part.raw_data(), kept.raw_data(), kept.bytes(), comm));
    if (unit.is_whole(i) || group_.size() == 1) continue;
    ZEROTH_RETURN_IF_ERROR(group_.AllGather(part, unit.segment(i).full, comm, unit.name()));
  }
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done, comm.Record());
  return unit.BeginGather(std::move(done));
}

void SecondaryShards::Drop(const Unit& unit) {
  const size_t index = static_cast<size_t>(unit.index());
  if (index < held_.size()) held_[index] = Held();
}

}  // namespace zeroth
