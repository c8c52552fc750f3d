// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/group_parts.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/shard_layout.h"

namespace zeroth {

absl::Status GroupParts::Gather(Unit& unit, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kSharded, "gather"));
  const size_t index = static_cast<size_t>(unit.index());
  if (held_.size() <= index) held_.resize(index + 1);
  Held& held = held_[index];
  if (held.last_use == nullptr) ZEROTH_RETURN_IF_ERROR(GatherAcross(unit, held, comm));
  ZEROTH_RETURN_IF_ERROR(GatherInside(unit, held, comm));
  ZEROTH_ASSIGN_OR_RETURN(held.last_use, comm.Record());
  return unit.BeginGather(held.last_use);
}

absl::Status GroupParts::AllocateParts(const Unit& unit, Held& held, Stream& comm) {
  const DType dtype = unit.precision().param_dtype;
  const int64_t copies = context_.mesh->replicate_size();
  const auto bytes_of = [&](int i) {
    const int64_t bytes =
        unit.segment_layout(i).shard_numel * copies * static_cast<int64_t>(SizeOf(dtype));
    return (bytes + ShardLayout::kAlignmentBytes - 1) / ShardLayout::kAlignmentBytes *
           ShardLayout::kAlignmentBytes;
  };
  int64_t bytes = 0;
  for (int i = 0; i < unit.segment_count(); ++i) bytes += unit.is_whole(i) ? 0 : bytes_of(i);
  held.parts.assign(static_cast<size_t>(unit.segment_count()), Tensor());
  if (bytes == 0) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor memory,
      AllocateBytes(*context_.device, bytes, MemoryCategory::kGatheredParameters, comm));
  int64_t offset = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_whole(i)) continue;
    const Shape shape({unit.segment_layout(i).shard_numel * copies});
    held.parts[static_cast<size_t>(i)] = memory.ViewAs(offset, shape, dtype);
    offset += bytes_of(i);
  }
  return absl::OkStatus();
}

absl::Status GroupParts::GatherAcross(Unit& unit, Held& held, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(AllocateParts(unit, held, comm));
  Communicator& across = context_.mesh->replicate_gather();
  for (int i = 0; i < unit.segment_count(); ++i) {
    const Tensor& part = held.parts[static_cast<size_t>(i)];
    if (!part.defined()) continue;
    const int64_t numel = unit.segment_layout(i).shard_numel;
    const Tensor slice = part.View(across.rank() * numel, Shape({numel}));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor own,
                            OwnPart(unit, i, slice, comm, context_.kernels, context_.staging));
    ZEROTH_RETURN_IF_ERROR(AllGatherSegment(unit, own, part, across, comm, context_.travel));
  }
  return absl::OkStatus();
}

absl::Status GroupParts::GatherInside(Unit& unit, const Held& held, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(AcquireFullParameters(unit, *context_.buffers, comm));
  Communicator& group = context_.mesh->shard_gather();
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_full(i)) continue;
    const Tensor& full = unit.segment(i).full;
    if (unit.is_whole(i)) {
      ZEROTH_RETURN_IF_ERROR(
          OwnPart(unit, i, full, comm, context_.kernels, context_.staging).status());
      continue;
    }
    const Tensor& part = held.parts[static_cast<size_t>(i)];
    if (group.size() == 1) {
      ZEROTH_RETURN_IF_ERROR(
          context_.device->Copy(full.raw_data(), part.raw_data(), part.bytes(), comm));
      continue;
    }
    ZEROTH_RETURN_IF_ERROR(AllGatherSegment(unit, part, full, group, comm, context_.travel));
  }
  return absl::OkStatus();
}

void GroupParts::Drop(const Unit& unit) {
  const size_t index = static_cast<size_t>(unit.index());
  if (index < held_.size()) held_[index] = Held();
}

absl::Status GroupParts::Clear() {
  absl::Status status;
  for (const Held& held : held_) {
    if (held.last_use != nullptr) {
      status.Update(context_.device->compute_stream().Wait(held.last_use));
    }
  }
  held_.clear();
  return status;
}

}  // namespace zeroth
