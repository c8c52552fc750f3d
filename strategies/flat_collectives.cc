// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/flat_collectives.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"

namespace zeroth {
namespace {

int64_t Aligned(int64_t bytes) {
  return (bytes + ShardLayout::kAlignmentBytes - 1) / ShardLayout::kAlignmentBytes *
         ShardLayout::kAlignmentBytes;
}

int64_t SegmentBytes(const ShardLayout::Segment& segment, DType dtype) {
  return Aligned(segment.numel * static_cast<int64_t>(SizeOf(dtype)));
}

absl::Status NeedsKernels(const Unit& unit, absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("unit '", unit.name(), "': ", what,
                   " needs rounding, but no kernels were given; pass on those of StrategyContext"));
}

}  // namespace

absl::Status ZeroGaps(Unit& unit, int segment, const Tensor& full, Stream& stream) {
  for (const ShardLayout::Gap& gap : unit.layout().Gaps(segment)) {
    const Tensor view = full.View(gap.offset, Shape({gap.numel}));
    ZEROTH_RETURN_IF_ERROR(unit.device().FillZero(view.raw_data(), view.bytes(), stream));
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<Travel> TravelFor(const Unit& unit, Communicator& group, Stream& comm,
                                 StreamScratch* scratch) {
  if (scratch == nullptr || scratch->kernels() == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(),
                     "' has collectives of its own, which this strategy gives no memory or kernels "
                     "to; pass StreamScratch and those of StrategyContext on"));
  }
  return Travel{group, comm, scratch->kernels(), *scratch, unit.name()};
}

absl::Status ReduceScatterIn(Communicator& group, const Unit& unit, const Tensor& full,
                             const Tensor& mine, ReduceOp op, bool accumulate,
                             const GradientGroups& groups, Stream& comm) {
  if (unit.collectives() == nullptr) {
    return group.ReduceScatter(full, mine, op, comm, unit.name(), accumulate);
  }
  ZEROTH_ASSIGN_OR_RETURN(const Travel by, TravelFor(unit, group, comm, groups.travel));
  return unit.collectives()->ReduceScatter(full, mine, op, accumulate, by);
}

absl::Status ReduceScatterSegment(const Unit& unit, const Tensor& full, const Tensor& mine,
                                  ReduceOp op, const GradientGroups& groups, Stream& comm) {
  return ReduceScatterIn(*groups.shard, unit, full, mine, op, unit.has_accumulated(), groups, comm);
}

absl::Status AllReduceSegment(const Unit& unit, const Tensor& values, ReduceOp op,
                              Communicator& group, const GradientGroups& groups, Stream& comm) {
  if (unit.collectives() == nullptr) return group.AllReduce(values, op, comm, unit.name());
  ZEROTH_ASSIGN_OR_RETURN(const Travel by, TravelFor(unit, group, comm, groups.travel));
  return unit.collectives()->AllReduce(values, op, by);
}

// The last step of a reduction: what the groups' own mean leaves to be done.
absl::Status ScaleResult(const Unit& unit, const Tensor& values, const GradientGroups& groups,
                         GradientSync sync, Kernels* kernels) {
  if (groups.scale == 1 || sync != GradientSync::kFinish) return absl::OkStatus();
  if (kernels == nullptr) return NeedsKernels(unit, "a gradient divide factor");
  return kernels::Scale(*kernels, values, static_cast<float>(groups.scale));
}

}  // namespace

absl::StatusOr<int> FixedShardSize(absl::string_view strategy, const StrategyOptions& options,
                                   int natural) {
  if (options.shard_size == 0 || options.shard_size == natural) return natural;
  return absl::InvalidArgumentError(absl::StrCat(
      strategy, " has shard groups of ", natural, " ranks here, but shard size ",
      options.shard_size, " was asked for; leave the shard size out, or use hybrid_shard"));
}

int64_t FullParameterBytes(const Unit& unit) {
  int64_t bytes = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_full(i)) continue;
    bytes += SegmentBytes(unit.segment_layout(i), unit.precision().param_dtype);
  }
  return bytes;
}

int64_t FullGradientBytes(const Unit& unit, MicroBatches how) {
  int64_t bytes = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& segment = unit.segment_layout(i);
    if (unit.is_full_gradient(i) || !segment.trainable) continue;
    bytes += SegmentBytes(segment, unit.full_gradient_dtype(i, how));
  }
  return bytes;
}

FullBuffers::FullBuffers(Device& device, MemoryCategory category, BufferSet* set)
    : device_(device), category_(category), set_(set) {}

void FullBuffers::RegisterWith(const std::vector<Communicator*>& groups) {
  if (!device_.allocator().has_transport_memory()) return;
  for (Communicator* group : groups) {
    if (group->size() > 1) groups_.push_back(group);
  }
  if (set_ != nullptr) set_->RegisterWith(groups_);
}

BufferSet* FullBuffers::SetOf(const Unit& unit, int64_t bytes) {
  if (set_ != nullptr && !unit.is_root()) return set_;
  if (groups_.empty() || bytes == 0) return nullptr;
  const size_t index = static_cast<size_t>(unit.index());
  if (own_.size() <= index) own_.resize(index + 1);
  std::unique_ptr<BufferSet>& own = own_[index];
  if (own == nullptr) {
    own = std::make_unique<BufferSet>(device_, category_, std::vector<int64_t>{bytes}, 1);
    own->RegisterWith(groups_);
  }
  return own.get();
}

absl::StatusOr<Tensor> FullBuffers::Acquire(const Unit& unit, int64_t bytes, Stream& writer) {
  const size_t index = static_cast<size_t>(unit.index());
  if (held_.size() <= index) held_.resize(index + 1);
  Holding& held = held_[index];
  if (held.buffer.defined()) {
    return absl::FailedPreconditionError(
        absl::StrCat("unit '", unit.name(), "': it still has its ", MemoryCategoryName(category_),
                     " of a step that has failed; call Scheduler::Abandon after an error"));
  }
  held.from = SetOf(unit, bytes);
  if (held.from != nullptr) {
    ZEROTH_ASSIGN_OR_RETURN(held.buffer, held.from->Acquire(bytes, writer));
  } else {
    ZEROTH_ASSIGN_OR_RETURN(held.buffer, AllocateBytes(device_, bytes, category_, writer));
  }
  return held.buffer;
}

void FullBuffers::Release(const Unit& unit, std::shared_ptr<Event> last_use) {
  const size_t index = static_cast<size_t>(unit.index());
  if (index >= held_.size() || !held_[index].buffer.defined())
    return;  // a unit whose segments are all full holds none
  Holding held = std::exchange(held_[index], Holding());
  if (held.from != nullptr) {
    held.from->Release(std::move(held.buffer), std::move(last_use));
  } else if (last_use != nullptr) {
    // The stream reports its own error.
    device_.compute_stream().Wait(last_use).IgnoreError();
  }
}

absl::Status FullBuffers::Trim() {
  absl::Status status;
  for (const std::unique_ptr<BufferSet>& own : own_) {
    if (own != nullptr) status.Update(own->Trim());
  }
  return status;
}

namespace {

// This rank's slice of a segment's full buffer.
Tensor SliceOf(const Unit& unit, int segment, const Tensor& full) {
  const int64_t numel = unit.segment_layout(segment).shard_numel;
  const int64_t begin = unit.is_whole(segment) ? 0 : unit.shard_rank() * numel;
  return full.View(begin, Shape({numel}));
}

// An offloaded shard, rounded into its slice, as much of it at a time as passes through `staging`.
absl::Status ReadRounded(const Unit& unit, int segment, const Tensor& slice, Kernels& kernels,
                         StreamScratch& staging, Stream& comm) {
  const OffloadedTensor& shard = unit.segment(segment).offloaded_shard;
  const int64_t chunk = std::min(unit.offload_chunk_numel(), shard.numel());
  for (int64_t begin = 0; begin < shard.numel(); begin += chunk) {
    const int64_t numel = std::min(chunk, shard.numel() - begin);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor values, staging.Take(numel, comm));
    ZEROTH_RETURN_IF_ERROR(shard.Read(begin, values, comm));
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(kernels, values, slice.View(begin, Shape({numel}))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> OwnPart(const Unit& unit, int i, const Tensor& slice, Stream& comm,
                               Kernels* kernels, StreamScratch* staging) {
  const Unit::Segment& segment = unit.segment(i);
  const bool rounds = !unit.precision().computes_in_masters();
  if (rounds && kernels == nullptr) return NeedsKernels(unit, "a gather");
  if (!unit.offloads_parameters()) {
    if (!rounds) return segment.shard;
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(*kernels, segment.shard, slice));
    return slice;
  }
  if (!rounds) {
    ZEROTH_RETURN_IF_ERROR(segment.offloaded_shard.Read(0, slice, comm));
    return slice;
  }
  ZEROTH_CHECK(staging != nullptr);
  ZEROTH_RETURN_IF_ERROR(ReadRounded(unit, i, slice, *kernels, *staging, comm));
  return slice;
}

absl::Status AllGatherSegment(const Unit& unit, const Tensor& mine, const Tensor& full,
                              Communicator& group, Stream& comm, StreamScratch* travel) {
  if (unit.collectives() == nullptr) return group.AllGather(mine, full, comm, unit.name());
  ZEROTH_ASSIGN_OR_RETURN(const Travel by, TravelFor(unit, group, comm, travel));
  return unit.collectives()->AllGather(mine, full, by);
}

absl::Status AcquireFullParameters(Unit& unit, FullBuffers& buffers, Stream& comm) {
  const DType dtype = unit.precision().param_dtype;
  const int64_t bytes = FullParameterBytes(unit);
  Tensor buffer;
  if (bytes > 0) {
    ZEROTH_ASSIGN_OR_RETURN(buffer, buffers.Acquire(unit, bytes, comm));
  }
  int64_t offset = 0;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& layout = unit.segment_layout(i);
    Unit::Segment& segment = unit.segment(i);
    if (unit.is_full(i)) {
      segment.full = segment.shard;
      continue;
    }
    segment.full = buffer.ViewAs(offset, Shape({layout.numel}), dtype);
    offset += SegmentBytes(layout, dtype);
  }
  return absl::OkStatus();
}

absl::Status GatherSegments(Unit& unit, Communicator& group, FullBuffers& buffers, Stream& comm,
                            Kernels* kernels, StreamScratch* staging, StreamScratch* travel) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kSharded, "gather"));
  if (!unit.precision().computes_in_masters() && kernels == nullptr) {
    return NeedsKernels(unit, "a gather");
  }
  ZEROTH_RETURN_IF_ERROR(AcquireFullParameters(unit, buffers, comm));
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_full(i)) continue;
    const Tensor& full = unit.segment(i).full;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor mine,
                            OwnPart(unit, i, SliceOf(unit, i, full), comm, kernels, staging));
    if (unit.is_whole(i)) continue;
    ZEROTH_RETURN_IF_ERROR(AllGatherSegment(unit, mine, full, group, comm, travel));
  }
  std::shared_ptr<Event> done;
  if (FullParameterBytes(unit) > 0) {
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
  const int64_t bytes = FullGradientBytes(unit, unit.micro_batches());
  Tensor buffer;
  if (bytes > 0) {
    ZEROTH_ASSIGN_OR_RETURN(buffer, buffers.Acquire(unit, bytes, unit.device().compute_stream()));
  }
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
    segment.grad = buffer.ViewAs(offset, Shape({layout.numel}), dtype);
    offset += SegmentBytes(layout, dtype);
    // Layers add to what earlier micro-batches have left.
    if (unit.is_whole(i) && unit.has_accumulated() && !unit.sums_in_tree()) {
      Stream& compute = unit.device().compute_stream();
      ZEROTH_RETURN_IF_ERROR(compute.Wait(unit.reduce_event()));
      ZEROTH_RETURN_IF_ERROR(segment.offloaded_grad_shard.Read(0, segment.grad, compute));
    }
  }
  return unit.BeginGradients();
}

absl::StatusOr<Tensor> AllocateFp32Gradients(const Unit& unit, const Shape& shape, Stream& writer) {
  const int64_t bytes = shape.numel() * static_cast<int64_t>(SizeOf(DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor memory,
                          AllocateBytes(unit.device(), bytes, MemoryCategory::kGradients, writer));
  return memory.ViewAs(0, shape, DType::kFloat32);
}

namespace {

// Shards of gradients that micro-batches add up to are fp32.
absl::Status WidenGradientShard(const Unit& unit, Unit::Segment& segment, Stream& comm) {
  if (unit.offloads_gradients()) {
    segment.offloaded_grad_shard = segment.offloaded_grad_shard.As(DType::kFloat32);
    return absl::OkStatus();
  }
  if (segment.grad_shard.dtype() == DType::kFloat32) return absl::OkStatus();
  const Shape shape = segment.grad_shard.shape();
  segment.grad_shard = Tensor();  // never both
  ZEROTH_ASSIGN_OR_RETURN(segment.grad_shard, AllocateFp32Gradients(unit, shape, comm));
  return absl::OkStatus();
}

bool ReducesAcross(const GradientGroups& groups, GradientSync sync) {
  return sync == GradientSync::kFinish && groups.replicate != nullptr &&
         groups.replicate->size() > 1;
}

// Whether something follows the reduction inside the group: a low-precision sum must not be rounded
// before, since that would depend on how ranks are grouped.
bool RoundsLater(const GradientGroups& groups, bool across, GradientSync sync) {
  return across || (groups.scale != 1 && sync == GradientSync::kFinish);
}

// Reduce-scatter inside the shard group, then all-reduce of the shard across groups.
absl::Status ReduceCutSegment(Unit& unit, Unit::Segment& segment, const GradientGroups& groups,
                              ReduceOp op, GradientSync sync, StreamScratch& scratch,
                              Stream& comm) {
  const bool across = ReducesAcross(groups, sync);
  const bool rounds_later =
      RoundsLater(groups, across, sync) && segment.grad_shard.dtype() != DType::kFloat32;
  Tensor sum = segment.grad_shard;
  if (rounds_later) {
    if (scratch.kernels() == nullptr) return NeedsKernels(unit, "a reduction in several steps");
    ZEROTH_ASSIGN_OR_RETURN(sum, scratch.Take(segment.grad_shard.numel(), comm));
  }
  ZEROTH_RETURN_IF_ERROR(ReduceScatterSegment(unit, segment.grad, sum, op, groups, comm));
  if (across) {
    ZEROTH_RETURN_IF_ERROR(AllReduceSegment(unit, sum, op, *groups.replicate, groups, comm));
  }
  ZEROTH_RETURN_IF_ERROR(ScaleResult(unit, sum, groups, sync, scratch.kernels()));
  return rounds_later ? kernels::Cast(*scratch.kernels(), sum, segment.grad_shard)
                      : absl::OkStatus();
}

// The same where the shard ends in the store. The sum is made in this rank's slice of the full
// gradient, which nobody needs any more, or in scratch where it has to be added to or is not
// rounded yet.
absl::Status ReduceCutSegmentToStore(Unit& unit, int i, const GradientGroups& groups, ReduceOp op,
                                     GradientSync sync, StreamScratch& scratch, Stream& comm) {
  Unit::Segment& segment = unit.segment(i);
  OffloadedTensor& shard = segment.offloaded_grad_shard;
  const bool across = ReducesAcross(groups, sync);
  const bool rounds_later = RoundsLater(groups, across, sync) && shard.dtype() != DType::kFloat32;
  const bool in_place =
      !rounds_later && !unit.has_accumulated() && shard.dtype() == segment.grad.dtype();
  const Tensor slice = SliceOf(unit, i, segment.grad);
  Tensor sum = slice;
  if (!in_place) {
    ZEROTH_ASSIGN_OR_RETURN(sum, scratch.Take(shard.numel(), comm));
  }
  if (unit.has_accumulated()) ZEROTH_RETURN_IF_ERROR(shard.Read(0, sum, comm));
  ZEROTH_RETURN_IF_ERROR(ReduceScatterSegment(unit, segment.grad, sum, op, groups, comm));
  if (across) {
    ZEROTH_RETURN_IF_ERROR(AllReduceSegment(unit, sum, op, *groups.replicate, groups, comm));
  }
  ZEROTH_RETURN_IF_ERROR(ScaleResult(unit, sum, groups, sync, scratch.kernels()));
  if (rounds_later) {
    if (scratch.kernels() == nullptr) return NeedsKernels(unit, "a reduction in several steps");
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(*scratch.kernels(), sum, slice));
    sum = slice;
  }
  return shard.Write(0, sum, comm);
}

// Where the shard group's sum of a segment is made, of which this rank gets one part: in fp32 where
// more micro-batches follow or it would be rounded twice, otherwise in the full gradient itself.
absl::StatusOr<Tensor> PlaceOfGroupSum(Unit& unit, Unit::Segment& segment,
                                       const GradientGroups& groups, GradientSync sync,
                                       StreamScratch& scratch, Stream& comm) {
  if (segment.group_sum.defined()) return segment.group_sum;
  const Shape part({segment.grad.numel() / groups.shard->size()});
  if (sync == GradientSync::kAccumulate) {
    ZEROTH_ASSIGN_OR_RETURN(segment.group_sum, AllocateFp32Gradients(unit, part, comm));
    return segment.group_sum;
  }
  if (segment.grad.dtype() != DType::kFloat32 && groups.shard->size() > 1) {
    return scratch.Take(part.numel(), comm);
  }
  return segment.grad.View(groups.shard->rank() * part.numel(), part);
}

// A group's sum → what its owners, one in each group, read of it.
absl::Status ScatterAcross(Unit& unit, int i, const Tensor& sum, const GradientGroups& groups,
                           ReduceOp op, StreamScratch& scratch, Stream& comm) {
  Unit::Segment& segment = unit.segment(i);
  const OffloadedTensor& store = segment.offloaded_grad_shard;
  const bool stores = unit.offloads_gradients();
  const DType target = stores ? store.dtype() : segment.grad_shard.dtype();
  // The collective itself widens, and has to where it is the only one.
  const bool scales = groups.scale != 1;
  const bool widens = sum.dtype() != DType::kFloat32 && (scales || target == DType::kFloat32);
  const bool direct = !stores && target == (widens ? DType::kFloat32 : sum.dtype());
  const Shape shape({unit.segment_layout(i).shard_numel});
  Tensor own =
      direct ? segment.grad_shard : sum.View(groups.replicate->rank() * shape.numel(), shape);
  if (!direct && widens) {
    ZEROTH_ASSIGN_OR_RETURN(own, scratch.Take(shape.numel(), comm));
  }
  ZEROTH_RETURN_IF_ERROR(ReduceScatterIn(*groups.replicate, unit, sum, own, op,
                                         /*accumulate=*/false, groups, comm));
  ZEROTH_RETURN_IF_ERROR(ScaleResult(unit, own, groups, GradientSync::kFinish, scratch.kernels()));
  if (direct) return absl::OkStatus();
  if (stores && own.dtype() == target) return store.Write(0, own, comm);
  if (scratch.kernels() == nullptr) return NeedsKernels(unit, "a reduction in several steps");
  // Nobody needs the full gradient any more.
  const Tensor rounded = stores ? SliceOf(unit, i, segment.grad) : segment.grad_shard;
  ZEROTH_RETURN_IF_ERROR(kernels::Cast(*scratch.kernels(), own, rounded));
  return stores ? store.Write(0, rounded, comm) : absl::OkStatus();
}

// Owners span groups: reduce-scatter inside the shard group, to which micro-batches add, and, of
// the last one's sum, across groups.
absl::Status ReduceCutSegmentToOwners(Unit& unit, int i, const GradientGroups& groups, ReduceOp op,
                                      GradientSync sync, StreamScratch& scratch, Stream& comm) {
  Unit::Segment& segment = unit.segment(i);
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum,
                          PlaceOfGroupSum(unit, segment, groups, sync, scratch, comm));
  if (groups.shard->size() > 1) {
    ZEROTH_RETURN_IF_ERROR(ReduceScatterSegment(unit, segment.grad, sum, op, groups, comm));
  }
  return sync == GradientSync::kFinish ? ScatterAcross(unit, i, sum, groups, op, scratch, comm)
                                       : absl::OkStatus();
}

absl::Status ReduceCut(Unit& unit, int i, const GradientGroups& groups, ReduceOp op,
                       GradientSync sync, StreamScratch& scratch, Stream& comm) {
  // What micro-batches add up to is fp32, in the shard or in the full gradient.
  if (sync == GradientSync::kAccumulate || unit.segment(i).grad.dtype() == DType::kFloat32) {
    ZEROTH_RETURN_IF_ERROR(WidenGradientShard(unit, unit.segment(i), comm));
  }
  if (groups.scatters_across) {
    return ReduceCutSegmentToOwners(unit, i, groups, op, sync, scratch, comm);
  }
  return unit.offloads_gradients()
             ? ReduceCutSegmentToStore(unit, i, groups, op, sync, scratch, comm)
             : ReduceCutSegment(unit, unit.segment(i), groups, op, sync, scratch, comm);
}

// The full gradient is what the optimizer reads: all-reduced in place, or, where it is 16-bit and
// to be scaled before it is rounded, in fp32.
absl::Status ReduceWholeSegment(Unit& unit, int i, const GradientGroups& groups, ReduceOp op,
                                GradientSync sync, StreamScratch& scratch, Stream& comm) {
  Unit::Segment& segment = unit.segment(i);
  const Tensor& grad = segment.grad;
  if (sync == GradientSync::kFinish && groups.world->size() > 1 && grad.numel() > 0) {
    const bool rounds_later = groups.scale != 1 && grad.dtype() != DType::kFloat32;
    Tensor sum = grad;
    if (rounds_later) {
      if (scratch.kernels() == nullptr) return NeedsKernels(unit, "a gradient divide factor");
      ZEROTH_ASSIGN_OR_RETURN(sum, scratch.Take(grad.numel(), comm));
      ZEROTH_RETURN_IF_ERROR(kernels::Cast(*scratch.kernels(), grad, sum));
    }
    ZEROTH_RETURN_IF_ERROR(AllReduceSegment(unit, sum, op, *groups.world, groups, comm));
    ZEROTH_RETURN_IF_ERROR(ScaleResult(unit, sum, groups, sync, scratch.kernels()));
    if (rounds_later) ZEROTH_RETURN_IF_ERROR(kernels::Cast(*scratch.kernels(), sum, grad));
  } else {
    ZEROTH_RETURN_IF_ERROR(ScaleResult(unit, grad, groups, sync, scratch.kernels()));
  }
  if (!unit.offloads_gradients()) return absl::OkStatus();
  OffloadedTensor& store = segment.offloaded_grad_shard;
  store = store.As(grad.dtype());
  return store.Write(0, grad, comm);
}

}  // namespace

absl::Status ReduceGradients(Unit& unit, const GradientGroups& groups, ReduceOp op,
                             GradientSync sync, FullBuffers& buffers, StreamScratch& scratch,
                             Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectGradientState(GradientState::kFull, "reduce gradients"));
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (!unit.segment_layout(i).trainable) continue;
    ZEROTH_RETURN_IF_ERROR(ZeroGaps(unit, i, unit.segment(i).grad, comm));
    ZEROTH_RETURN_IF_ERROR(unit.is_whole(i)
                               ? ReduceWholeSegment(unit, i, groups, op, sync, scratch, comm)
                               : ReduceCut(unit, i, groups, op, sync, scratch, comm));
  }
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done, comm.Record());
  ZEROTH_RETURN_IF_ERROR(sync == GradientSync::kFinish ? unit.MarkReduced(done)
                                                       : unit.MarkAccumulated(done));
  buffers.Release(unit, std::move(done));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> GatherMasters(const Unit& unit, Communicator& group,
                                                  Stream& comm) {
  std::vector<Tensor> masters;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const StateTensor shard = unit.ShardState(i);
    if (unit.is_whole(i) && !shard.is_offloaded()) {
      masters.push_back(shard.tensor());
      continue;
    }
    const int64_t numel = unit.segment_layout(i).numel;
    ZEROTH_ASSIGN_OR_RETURN(
        const Tensor memory,
        AllocateBytes(unit.device(), numel * static_cast<int64_t>(SizeOf(shard.dtype())),
                      MemoryCategory::kGatheredParameters, comm));
    const Tensor full = memory.ViewAs(0, Shape({numel}), shard.dtype());
    masters.push_back(full);
    Tensor mine = shard.tensor();
    if (shard.is_offloaded()) {
      mine = SliceOf(unit, i, full);
      ZEROTH_RETURN_IF_ERROR(shard.Read(0, mine, comm));
    }
    if (!unit.is_whole(i)) {
      ZEROTH_RETURN_IF_ERROR(group.AllGather(mine, full, comm, unit.name()));
    }
  }
  return masters;
}

}  // namespace zeroth
