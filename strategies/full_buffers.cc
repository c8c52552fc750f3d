// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/full_buffers.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Returns the size of the largest small unit, if there are small ones, and then that of the largest
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

// Returns the tensors to allocate, by segment; empty where the shard is the full buffer.
std::vector<PackedTensor> FullParameters(const Unit& unit) {
  std::vector<PackedTensor> tensors;
  for (int i = 0; i < unit.segment_count(); ++i) {
    tensors.push_back({unit.is_full(i) ? 0 : unit.segment_layout(i).numel, unit.param_dtype(i)});
  }
  return tensors;
}

std::vector<PackedTensor> FullGradients(const Unit& unit, Accumulation how) {
  std::vector<PackedTensor> tensors;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const bool has_memory = unit.segment_layout(i).trainable && !unit.is_full_gradient(i);
    tensors.push_back(
        {has_memory ? unit.segment_layout(i).numel : 0, unit.full_gradient_dtype(i, how)});
  }
  return tensors;
}

// Returns tensors in the unit's buffer. A unit whose tensors are all empty has no buffer.
absl::StatusOr<std::vector<Tensor>> AcquirePacked(const Unit& unit, FullBuffers& buffers,
                                                  const std::vector<PackedTensor>& tensors,
                                                  Stream& writer) {
  const int64_t bytes = PackedBytes(tensors);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor buffer,
                          bytes > 0 ? buffers.Acquire(unit, bytes, writer)
                                    : Tensor::Empty(unit.device(), Shape({0}), DType::kUInt8,
                                                    MemoryCategory::kGatheredParameters));
  return PackedIn(buffer, tensors);
}

}  // namespace

int64_t FullParameterBytes(const Unit& unit) { return PackedBytes(FullParameters(unit)); }

int64_t FullGradientBytes(const Unit& unit, Accumulation how) {
  return PackedBytes(FullGradients(unit, how));
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

bool FullBuffers::HasSizeFor(const Unit& unit, int64_t bytes) {
  const HeldBuffer& held = held_[static_cast<size_t>(unit.index())];
  BufferSet* const shared = shared_of_[static_cast<size_t>(unit.accumulation())];
  return held.buffer.defined() && held.from == shared &&
         shared->SizeFor(bytes) == static_cast<int64_t>(held.buffer.bytes());
}

absl::StatusOr<Tensor> FullBuffers::Acquire(const Unit& unit, int64_t bytes, Stream& writer) {
  HeldBuffer& held = held_[static_cast<size_t>(unit.index())];
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
  HeldBuffer held = std::exchange(held_[static_cast<size_t>(unit.index())], HeldBuffer());
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
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Tensor> full,
                          AcquirePacked(unit, buffers, FullParameters(unit), comm));
  for (int i = 0; i < unit.segment_count(); ++i) {
    Unit::Segment& segment = unit.segment(i);
    segment.full = unit.is_full(i) ? segment.shard.tensor() : full[static_cast<size_t>(i)];
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
  Stream& compute = unit.device().compute_stream();
  ZEROTH_ASSIGN_OR_RETURN(
      const std::vector<Tensor> full,
      AcquirePacked(unit, buffers, FullGradients(unit, unit.accumulation()), compute));
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& layout = unit.segment_layout(i);
    if (!layout.trainable) continue;
    Unit::Segment& segment = unit.segment(i);
    if (!segment.grad_shard.defined()) {
      const DType dtype = unit.gradient_shard_dtype(i, unit.accumulation(), /*adds_up=*/false);
      ZEROTH_ASSIGN_OR_RETURN(segment.grad_shard,
                              Tensor::Empty(unit.device(), Shape({layout.shard_numel}), dtype,
                                            MemoryCategory::kGradients));
    }
    segment.grad =
        unit.is_full_gradient(i) ? segment.grad_shard.tensor() : full[static_cast<size_t>(i)];
    // Layers add to the gradients of earlier micro-batches.
    if (unit.adds_to_full(i) && segment.grad_shard.is_offloaded()) {
      ZEROTH_RETURN_IF_ERROR(compute.Wait(unit.reduce_event()));
      ZEROTH_RETURN_IF_ERROR(segment.grad_shard.Read(0, segment.grad, compute));
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
