// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/flat_collectives.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

int64_t SegmentBytes(const ShardLayout::Segment& segment) {
  const int64_t bytes = segment.numel * static_cast<int64_t>(SizeOf(segment.dtype));
  return (bytes + ShardLayout::kAlignmentBytes - 1) / ShardLayout::kAlignmentBytes *
         ShardLayout::kAlignmentBytes;
}

int64_t CutBytes(const Unit& unit, bool trainable_only) {
  int64_t bytes = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& segment = unit.segment_layout(i);
    if (unit.is_whole(i) || (trainable_only && !segment.trainable)) continue;
    bytes += SegmentBytes(segment);
  }
  return bytes;
}

// Gaps and padding travel with the parameters; zeros there keep them zeros in every sum.
absl::Status ZeroGaps(Unit& unit, int segment, const Tensor& full, Stream& stream) {
  for (const ShardLayout::Gap& gap : unit.layout().Gaps(segment)) {
    const Tensor view = full.View(gap.offset, Shape({gap.numel}));
    ZEROTH_RETURN_IF_ERROR(unit.device().FillZero(view.raw_data(), view.bytes(), stream));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> FixedShardSize(absl::string_view strategy, const StrategyOptions& options,
                                   int natural) {
  if (options.shard_size == 0 || options.shard_size == natural) return natural;
  return absl::InvalidArgumentError(absl::StrCat(
      strategy, " has shard groups of ", natural, " ranks here, but shard size ",
      options.shard_size, " was asked for; leave the shard size out, or use hybrid_shard"));
}

int64_t FullParameterBytes(const Unit& unit) { return CutBytes(unit, /*trainable_only=*/false); }
int64_t FullGradientBytes(const Unit& unit) { return CutBytes(unit, /*trainable_only=*/true); }

FullBuffers::FullBuffers(Device& device, MemoryCategory category, BufferSet* set)
    : device_(device), category_(category), set_(set) {}

absl::StatusOr<Tensor> FullBuffers::Acquire(const Unit& unit, int64_t bytes, Stream& writer) {
  const size_t index = static_cast<size_t>(unit.index());
  if (places_.size() <= index) places_.resize(index + 1);
  Place& place = places_[index];
  ZEROTH_CHECK(!place.held.defined());
  if (FromSet(unit)) {
    ZEROTH_ASSIGN_OR_RETURN(place.held, set_->Acquire(bytes, writer));
  } else if (place.idle.defined() && static_cast<int64_t>(place.idle.bytes()) == bytes) {
    if (place.last_use != nullptr) ZEROTH_RETURN_IF_ERROR(writer.Wait(place.last_use));
    place.held = std::exchange(place.idle, Tensor());
    place.last_use = nullptr;
  } else {
    ZEROTH_ASSIGN_OR_RETURN(place.held,
                            Tensor::Empty(device_, Shape({bytes}), DType::kUInt8, category_));
  }
  return place.held;
}

void FullBuffers::Release(const Unit& unit, std::shared_ptr<Event> last_use) {
  const size_t index = static_cast<size_t>(unit.index());
  if (index >= places_.size() || !places_[index].held.defined())
    return;  // a unit without cut segments holds none
  Place& place = places_[index];
  Tensor buffer = std::exchange(place.held, Tensor());
  if (FromSet(unit)) {
    set_->Release(std::move(buffer), std::move(last_use));
  } else if (last_use != nullptr && !last_use->IsDone()) {
    place.idle = std::move(buffer);
    place.last_use = std::move(last_use);
  }
}

absl::Status FullBuffers::Trim() {
  absl::Status status;
  for (Place& place : places_) {
    if (place.last_use != nullptr) status.Update(place.last_use->Synchronize());
    place.idle = Tensor();
    place.last_use = nullptr;
  }
  return status;
}

absl::Status GatherSegments(Unit& unit, Communicator& group, FullBuffers& buffers, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kSharded, "gather"));
  const int64_t bytes = FullParameterBytes(unit);
  Tensor buffer;
  if (bytes > 0) {
    ZEROTH_ASSIGN_OR_RETURN(buffer, buffers.Acquire(unit, bytes, comm));
  }
  int64_t offset = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& layout = unit.segment_layout(i);
    Unit::Segment& segment = unit.segment(i);
    if (unit.is_whole(i)) {
      segment.full = segment.shard;
      continue;
    }
    segment.full = buffer.ViewAs(offset, Shape({layout.numel}), layout.dtype);
    offset += SegmentBytes(layout);
    ZEROTH_RETURN_IF_ERROR(group.AllGather(segment.shard, segment.full, comm, unit.name()));
  }
  std::shared_ptr<Event> done;
  if (bytes > 0) {
    ZEROTH_ASSIGN_OR_RETURN(done, comm.Record());
  }
  return unit.BeginGather(std::move(done));
}

absl::Status FreeGathered(Unit& unit, FullBuffers& buffers) {
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> last_use, unit.device().compute_stream().Record());
  ZEROTH_RETURN_IF_ERROR(unit.MarkSharded());
  buffers.Release(unit, std::move(last_use));
  return absl::OkStatus();
}

absl::Status PrepareFullGradients(Unit& unit, FullBuffers& buffers) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectGradientState(GradientState::kNone, "prepare gradients"));
  const int64_t bytes = FullGradientBytes(unit);
  Tensor buffer;
  if (bytes > 0) {
    ZEROTH_ASSIGN_OR_RETURN(buffer, buffers.Acquire(unit, bytes, unit.device().compute_stream()));
  }
  int64_t offset = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& layout = unit.segment_layout(i);
    if (!layout.trainable) continue;
    Unit::Segment& segment = unit.segment(i);
    if (!segment.grad_shard.defined()) {
      ZEROTH_ASSIGN_OR_RETURN(segment.grad_shard,
                              Tensor::Empty(unit.device(), Shape({layout.shard_numel}),
                                            layout.dtype, MemoryCategory::kGradients));
    }
    if (unit.is_whole(i)) {
      segment.grad = segment.grad_shard;
      continue;
    }
    segment.grad = buffer.ViewAs(offset, Shape({layout.numel}), layout.dtype);
    offset += SegmentBytes(layout);
  }
  return unit.BeginGradients();
}

absl::Status ReduceGradients(Unit& unit, const GradientGroups& groups, ReduceOp op,
                             FullBuffers& buffers, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectGradientState(GradientState::kFull, "reduce gradients"));
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (!unit.segment_layout(i).trainable) continue;
    Unit::Segment& segment = unit.segment(i);
    ZEROTH_RETURN_IF_ERROR(ZeroGaps(unit, i, segment.grad, comm));
    if (unit.is_whole(i)) {
      if (groups.world->size() > 1 && segment.grad.numel() > 0) {
        ZEROTH_RETURN_IF_ERROR(groups.world->AllReduce(segment.grad, op, comm, unit.name()));
      }
      continue;
    }
    ZEROTH_RETURN_IF_ERROR(
        groups.shard->ReduceScatter(segment.grad, segment.grad_shard, op, comm, unit.name()));
    if (groups.replicate != nullptr && groups.replicate->size() > 1) {
      ZEROTH_RETURN_IF_ERROR(
          groups.replicate->AllReduce(segment.grad_shard, op, comm, unit.name()));
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done, comm.Record());
  ZEROTH_RETURN_IF_ERROR(unit.MarkReduced(done));
  buffers.Release(unit, std::move(done));
  return absl::OkStatus();
}

}  // namespace zeroth
