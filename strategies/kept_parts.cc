// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/kept_parts.h"

#include <cstddef>
#include <cstdint>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/strategies/buffer_set.h"

namespace zeroth {

absl::Status KeptParts::Allocate(const Unit& unit, int pieces, Stream& writer) {
  const DType dtype = unit.precision().param_dtype;
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    offsets.push_back(bytes);
    if (!unit.is_replicated(i)) bytes += AlignedBytes(unit.segment_layout(i).numel / pieces, dtype);
  }
  parts_.assign(offsets.size(), Tensor());
  if (bytes == 0) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor memory,
      AllocateBytes(unit.device(), bytes, MemoryCategory::kGatheredParameters, writer));
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_replicated(i)) continue;
    const Shape shape({unit.segment_layout(i).numel / pieces});
    const auto index = static_cast<size_t>(i);
    parts_[index] = memory.ViewAs(offsets[index], shape, dtype);
  }
  return absl::OkStatus();
}

absl::Status KeptParts::Copy(const Unit& unit, const Communicator& group) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kGathered, "keep a part of it"));
  Stream& compute = unit.device().compute_stream();
  ZEROTH_RETURN_IF_ERROR(Allocate(unit, group.size(), compute));
  for (int i = 0; i < unit.segment_count(); ++i) {
    const Tensor& part = parts_[static_cast<size_t>(i)];
    if (!part.defined()) continue;
    const Tensor mine = unit.segment(i).full.View(group.rank() * part.numel(), part.shape());
    ZEROTH_RETURN_IF_ERROR(
        unit.device().Copy(part.raw_data(), mine.raw_data(), part.bytes(), compute));
  }
  ZEROTH_ASSIGN_OR_RETURN(last_use_, compute.Record());
  return absl::OkStatus();
}

absl::Status KeptParts::GatherAcross(const Unit& unit, Communicator& across,
                                     const GatherTools& tools, Stream& comm) {
  // A part consists of the shards of as many owners as there are ranks in `across`.
  const int pieces = unit.layout().shard_count() / across.size();
  ZEROTH_RETURN_IF_ERROR(Allocate(unit, pieces, comm));
  ZEROTH_ASSIGN_OR_RETURN(
      const CollectiveContext context,
      CollectiveContextOf(unit, across, comm, tools.kernels, tools.collective_scratch));
  std::vector<UnitGather> gathers;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const Tensor& part = parts_[static_cast<size_t>(i)];
    if (!part.defined()) continue;
    const int64_t numel = unit.segment_layout(i).shard_numel;
    const Tensor slice = part.View(across.rank() * numel, Shape({numel}));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor own, OwnPart(unit, i, slice, tools, comm));
    gathers.push_back({own, part});
  }
  ZEROTH_RETURN_IF_ERROR(unit.collectives().AllGatherAll(gathers, context));
  ZEROTH_ASSIGN_OR_RETURN(last_use_, comm.Record());
  return absl::OkStatus();
}

absl::Status KeptParts::Gather(Unit& unit, Communicator& group, UnitCollectives& collectives,
                               const GatherTools& tools, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(comm.Wait(last_use_));
  ZEROTH_ASSIGN_OR_RETURN(const CollectiveContext context, PrepareGather(unit, group, tools, comm));
  std::vector<UnitGather> gathers;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_full(i)) continue;
    const Tensor& full = unit.segment(i).full;
    const Tensor& part = parts_[static_cast<size_t>(i)];
    if (!part.defined()) {
      ZEROTH_RETURN_IF_ERROR(OwnPart(unit, i, full, tools, comm).status());
    } else if (group.size() == 1) {
      ZEROTH_RETURN_IF_ERROR(
          unit.device().Copy(full.raw_data(), part.raw_data(), part.bytes(), comm));
    } else {
      gathers.push_back({part, full});
    }
  }
  ZEROTH_RETURN_IF_ERROR(collectives.AllGatherAll(gathers, context));
  ZEROTH_ASSIGN_OR_RETURN(last_use_, comm.Record());
  return unit.BeginGather(last_use_);
}

absl::Status KeptParts::Drop(Stream& compute) {
  if (last_use_ == nullptr) return absl::OkStatus();
  const absl::Status status = compute.Wait(last_use_);
  if (!status.ok() && !last_use_->IsDone()) return status;
  last_use_ = nullptr;
  parts_.clear();
  return status;
}

}  // namespace zeroth
