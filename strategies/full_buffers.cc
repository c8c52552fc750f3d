// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/full_buffers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Returns the size of the largest small unit, if there are small ones, then that of the largest
// unit.
std::vector<int64_t> SizesOf(const std::vector<int64_t>& units) {
  constexpr int64_t kMuchSmaller = 8;
  int64_t largest = 0;
  for (const int64_t bytes : units) largest = std::max(largest, bytes);
  int64_t small = 0;
  for (const int64_t bytes : units) {
    if (bytes <= largest / kMuchSmaller) small = std::max(small, bytes);
  }
  if (small == 0) return {largest};
  return {small, largest};
}

// A segment's range in its unit's buffer. A unit whose segments are all empty has no buffer.
absl::StatusOr<Tensor> PlaceIn(const Tensor& buffer, int64_t offset, int64_t numel, DType dtype,
                               Device& device) {
  if (buffer.defined()) return buffer.ViewAs(offset, Shape({numel}), dtype);
  return Tensor::Empty(device, Shape({numel}), dtype, MemoryCategory::kGatheredParameters);
}

}  // namespace

int64_t FullParameterBytes(const Unit& unit) {
  int64_t bytes = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_full(i)) continue;
    bytes += AlignedBytes(unit.segment_layout(i).numel, unit.precision().param_dtype);
  }
  return bytes;
}

int64_t FullGradientBytes(const Unit& unit, Accumulation how) {
  int64_t bytes = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& segment = unit.segment_layout(i);
    if (unit.is_full_gradient(i) || !segment.trainable) continue;
    bytes += AlignedBytes(segment.numel, unit.full_gradient_dtype(i, how));
  }
  return bytes;
}

int64_t HandoverBytes(absl::Span<Unit* const> units) {
  int64_t numel = 0;
  for (const Unit* unit : units) {
    if (unit->mesh().replicate_size() == 1) continue;
    for (int i = 0; i < unit->segment_count(); ++i) {
      numel = std::max(numel, unit->segment_layout(i).numel / unit->mesh().shard_size());
    }
  }
  return numel * static_cast<int64_t>(SizeOf(DType::kFloat32));
}

FullBuffers::FullBuffers(Device& device, MemoryCategory category, const std::vector<Unit*>& units,
                         int limit, const BytesOf& bytes_of)
    : device_(device),
      category_(category),
      held_(units.size()),
      own_(units.size()),
      unshared_(device, category, {0}, /*limit=*/0) {
  if (limit == 0) return;
  std::vector<std::vector<int64_t>> sizes;
  for (size_t how = 0; how < shared_of_.size(); ++how) {
    std::vector<int64_t> bytes;
    for (const Unit* unit : units) {
      if (!unit->is_root()) bytes.push_back(bytes_of(*unit, static_cast<Accumulation>(how)));
    }
    const auto same = std::find(sizes.begin(), sizes.end(), SizesOf(bytes));
    const auto index = static_cast<size_t>(same - sizes.begin());
    if (same == sizes.end()) {
      sizes.push_back(SizesOf(bytes));
      shared_.push_back(std::make_unique<BufferSet>(device, category, sizes.back(), limit));
    }
    shared_of_[how] = shared_[index].get();
  }
}

void FullBuffers::RegisterWith(const std::vector<Communicator*>& groups) {
  if (!device_.allocator().has_transport_memory()) return;
  for (Communicator* group : groups) {
    if (group->size() > 1) groups_.push_back(group);
  }
  for (const std::unique_ptr<BufferSet>& shared : shared_) shared->RegisterWith(groups_);
}

BufferSet& FullBuffers::SetOf(const Unit& unit, int64_t bytes) {
  BufferSet* const shared = shared_of_[static_cast<size_t>(unit.accumulation())];
  if (shared != nullptr && !unit.is_root()) return *shared;
  if (groups_.empty() || bytes == 0) return unshared_;
  std::unique_ptr<BufferSet>& own = own_[static_cast<size_t>(unit.index())];
  if (own == nullptr) {
    own = std::make_unique<BufferSet>(device_, category_, std::vector<int64_t>{bytes}, 1);
    own->RegisterWith(groups_);
  }
  return *own;
}

bool FullBuffers::HasRoom(const Unit& unit, int64_t bytes) {
  BufferSet* const shared = shared_of_[static_cast<size_t>(unit.accumulation())];
  return shared == nullptr || unit.is_root() || bytes == 0 || shared->HasRoom(bytes);
}

absl::StatusOr<Tensor> FullBuffers::Acquire(const Unit& unit, int64_t bytes, Stream& writer) {
  Holding& held = held_[static_cast<size_t>(unit.index())];
  if (held.buffer.defined()) {
    return FailedPrecondition("unit '", unit.name(), "': it still has its ",
                              MemoryCategoryName(category_),
                              " of a step that has failed; call Scheduler::Abandon after an error");
  }
  held.from = &SetOf(unit, bytes);
  ZEROTH_ASSIGN_OR_RETURN(held.buffer, held.from->Acquire(bytes, writer));
  return held.buffer;
}

void FullBuffers::Release(const Unit& unit, std::shared_ptr<Event> last_use) {
  Holding held = std::exchange(held_[static_cast<size_t>(unit.index())], Holding());
  // A unit whose shards are all full buffers needs none.
  if (held.buffer.defined()) held.from->Release(std::move(held.buffer), std::move(last_use));
}

absl::Status FullBuffers::Trim() {
  absl::Status status = unshared_.Trim();
  for (const auto* sets : {&shared_, &own_}) {
    for (const std::unique_ptr<BufferSet>& set : *sets) {
      if (set != nullptr) status.Update(set->Trim());
    }
  }
  return status;
}

absl::Status AcquireFullParameters(Unit& unit, FullBuffers& buffers, Stream& comm) {
  const DType dtype = unit.precision().param_dtype;
  const int64_t bytes = FullParameterBytes(unit);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                          bytes > 0 ? buffers.Acquire(unit, bytes, comm) : Tensor());
  int64_t offset = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const int64_t numel = unit.segment_layout(i).numel;
    Unit::Segment& segment = unit.segment(i);
    if (unit.is_full(i)) {
      segment.full = segment.shard;
      continue;
    }
    ZEROTH_ASSIGN_OR_RETURN(segment.full, PlaceIn(buffer, offset, numel, dtype, unit.device()));
    offset += AlignedBytes(numel, dtype);
  }
  return absl::OkStatus();
}

absl::Status FreeGathered(Unit& unit, FullBuffers& buffers) {
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> last_use, unit.device().compute_stream().Record());
  ZEROTH_RETURN_IF_ERROR(unit.MarkSharded());
  buffers.Release(unit, std::move(last_use));
  return absl::OkStatus();
}

absl::Status PrepareFullGradients(Unit& unit, FullBuffers& buffers) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectGradientState(GradientState::kNone, "prepare gradients"));
  const int64_t bytes = FullGradientBytes(unit, unit.accumulation());
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor buffer,
      bytes > 0 ? buffers.Acquire(unit, bytes, unit.device().compute_stream()) : Tensor());
  int64_t offset = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& layout = unit.segment_layout(i);
    if (!layout.trainable) continue;
    Unit::Segment& segment = unit.segment(i);
    const DType dtype = unit.full_gradient_dtype(i);
    if (!unit.offloads_gradients() && !segment.grad_shard.defined()) {
      const DType result =
          dtype == DType::kFloat32 ? DType::kFloat32 : unit.precision().gradient_dtype();
      ZEROTH_ASSIGN_OR_RETURN(segment.grad_shard,
                              Tensor::Empty(unit.device(), Shape({layout.shard_numel}), result,
                                            MemoryCategory::kGradients));
    }
    if (unit.is_full_gradient(i)) {
      segment.grad = segment.grad_shard;
      continue;
    }
    ZEROTH_ASSIGN_OR_RETURN(segment.grad,
                            PlaceIn(buffer, offset, layout.numel, dtype, unit.device()));
    offset += AlignedBytes(layout.numel, dtype);
    // Layers add to the gradients of earlier micro-batches.
    if (unit.is_replicated(i) && unit.has_accumulated() && !unit.sums_in_tree()) {
      Stream& compute = unit.device().compute_stream();
      ZEROTH_RETURN_IF_ERROR(compute.Wait(unit.reduce_event()));
      ZEROTH_RETURN_IF_ERROR(segment.offloaded_grad_shard.Read(0, segment.grad, compute));
    }
  }
  return unit.BeginGradients();
}

absl::Status ZeroGaps(const Unit& unit, int segment, const Tensor& full, Stream& stream) {
  for (const ShardLayout::Gap& gap : unit.layout().Gaps(segment)) {
    const Tensor view = full.View(gap.offset, Shape({gap.numel}));
    ZEROTH_RETURN_IF_ERROR(unit.device().FillZero(view.raw_data(), view.bytes(), stream));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
