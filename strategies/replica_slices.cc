// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/replica_slices.h"

#include <algorithm>
#include <numeric>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/mesh.h"
#include "zeroth/core/tensor/tensor.h"

namespace zeroth {
namespace {

// Returns the ranks that hold the same shard of a segment; nullptr if there is one. These groups
// exist for the reductions of gradients.
Communicator* ReplicasOf(const Unit& unit, int segment) {
  const MeshView& mesh = unit.mesh();
  if (!unit.segment_layout(segment).replicated && mesh.owners_span_groups()) return nullptr;
  Communicator& replicas =
      unit.segment_layout(segment).replicated ? mesh.data_reduce() : mesh.replicate_reduce();
  return replicas.size() > 1 ? &replicas : nullptr;
}

// Returns the part of `piece` in [from, to) of the shard; it may be empty.
ShardLayout::Piece PartIn(const ShardLayout::Piece& piece, int64_t from, int64_t to) {
  const int64_t begin = std::clamp(from - piece.shard_offset, int64_t{0}, piece.numel());
  const int64_t end = std::clamp(to - piece.shard_offset, begin, piece.numel());
  return {piece.parameter, piece.begin + begin, piece.begin + end, piece.shard_offset + begin};
}

}  // namespace

ReplicaSlices::ReplicaSlices(const Unit& unit, int segment, int64_t begin, int64_t numel,
                             int64_t block)
    : unit_(&unit), replicas_(ReplicasOf(unit, segment)), begin_(begin) {
  if (replicas_ == nullptr) return;
  const int64_t step = std::lcm(unit.layout().block_numel(), block);
  slice_ = numel / step / replicas_->size() * step;
}

ReplicaSlices::ReplicaSlices(const Unit& unit, int segment)
    : ReplicaSlices(unit, segment, 0, unit.segment_layout(segment).shard_numel, 1) {}

std::vector<ShardLayout::Piece> ReplicaSlices::PartsToRead(const ShardLayout::Piece& piece) const {
  if (slice_ == 0) return {piece};
  const int64_t mine = begin_ + replicas_->rank() * slice_;
  const int64_t rest = begin_ + replicas_->size() * slice_;
  std::vector<ShardLayout::Piece> parts = {
      PartIn(piece, mine, mine + slice_),
      PartIn(piece, rest, std::max(rest, piece.shard_offset + piece.numel()))};
  parts.erase(std::remove_if(parts.begin(), parts.end(),
                             [](const ShardLayout::Piece& part) { return part.numel() == 0; }),
              parts.end());
  return parts;
}

absl::Status ReplicaSlices::Exchange(const StateTensor& state, int64_t block,
                                     absl::string_view label) const {
  constexpr int64_t kStagingBytes = int64_t{4} << 20;
  if (slice_ == 0) return absl::OkStatus();
  const int64_t slice = slice_ / block;
  const int64_t count = replicas_->size();
  Stream& stream = unit_->device().compute_stream();
  // All slices at once in place or, if they are offloaded, in pieces through staging.
  int64_t step = slice;
  Tensor memory = state.tensor();
  if (state.is_offloaded()) {
    const int64_t most = kStagingBytes / static_cast<int64_t>(SizeOf(state.dtype())) / count;
    step = std::clamp(most, int64_t{1}, slice);
    ZEROTH_ASSIGN_OR_RETURN(memory, Tensor::Empty(unit_->device(), Shape({count * step}),
                                                  state.dtype(), MemoryCategory::kOffloadStaging));
  }
  for (int64_t done = 0; done < slice; done += step) {
    const int64_t numel = std::min(step, slice - done);
    const Tensor all = memory.View(0, Shape({count * numel}));
    const auto part = [&](int64_t replica) { return all.View(replica * numel, Shape({numel})); };
    const Tensor mine = part(replicas_->rank());
    if (state.is_offloaded()) {
      ZEROTH_RETURN_IF_ERROR(state.Read(replicas_->rank() * slice + done, mine, stream));
    }
    ZEROTH_RETURN_IF_ERROR(replicas_->AllGather(mine, all, stream, label));
    for (int64_t replica = 0; state.is_offloaded() && replica < count; ++replica) {
      ZEROTH_RETURN_IF_ERROR(state.Write(replica * slice + done, part(replica), stream));
    }
  }
  return stream.Synchronize();
}

}  // namespace zeroth
