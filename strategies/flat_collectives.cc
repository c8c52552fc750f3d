// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/flat_collectives.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"

namespace zeroth {

absl::StatusOr<CollectiveContext> CollectiveContextOf(const Unit& unit, Communicator& group,
                                                      Stream& comm, Kernels* kernels,
                                                      StreamScratch* scratch) {
  if (unit.has_own_collectives() && (kernels == nullptr || scratch == nullptr)) {
    return FailedPrecondition("unit '", unit.name(),
                              "' has collectives of its own, which this strategy gives no memory "
                              "or kernels to; pass StreamScratch and those of StrategyContext on");
  }
  return CollectiveContext{group, comm, kernels, scratch, unit.name()};
}

absl::Status NeedsKernels(const Unit& unit, absl::string_view what) {
  return FailedPrecondition(
      "unit '", unit.name(), "': ", what,
      " needs rounding, but no kernels were given; pass on those of StrategyContext");
}

namespace {

// This rank's slice of a segment's full buffer.
Tensor SliceOf(const Unit& unit, int segment, const Tensor& full) {
  const int64_t numel = unit.segment_layout(segment).shard_numel;
  const int64_t begin = unit.is_replicated(segment) ? 0 : unit.shard_rank() * numel;
  return full.View(begin, Shape({numel}));
}

// Rounds an offloaded shard into its slice, chunk by chunk through `staging`.
absl::Status ReadRounded(const Unit& unit, int segment, const Tensor& slice, Kernels& kernels,
                         StreamScratch& staging, Stream& comm) {
  const StateTensor& shard = unit.segment(segment).offloaded_shard;
  const int64_t chunk = std::min(unit.offload_chunk_numel(), shard.numel());
  for (int64_t begin = 0; begin < shard.numel(); begin += chunk) {
    const int64_t numel = std::min(chunk, shard.numel() - begin);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor values, staging.Take(numel, comm));
    ZEROTH_RETURN_IF_ERROR(shard.Read(begin, values, comm));
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(kernels, values, slice.View(begin, Shape({numel}))));
  }
  return absl::OkStatus();
}

// The place of a segment in its unit's buffer. A unit whose segments are all empty has no buffer.
absl::StatusOr<Tensor> PlaceIn(const Tensor& buffer, int64_t offset, int64_t numel, DType dtype,
                               Device& device) {
  if (buffer.defined()) return buffer.ViewAs(offset, Shape({numel}), dtype);
  return Tensor::Empty(device, Shape({numel}), dtype, MemoryCategory::kGatheredParameters);
}

// Does the first part of PrepareGather.
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

}  // namespace

absl::StatusOr<Tensor> OwnPart(const Unit& unit, int i, const Tensor& slice,
                               const GatherTools& tools, Stream& comm) {
  const Unit::Segment& segment = unit.segment(i);
  const bool rounds = !unit.precision().computes_in_masters();
  if (rounds && tools.kernels == nullptr) return NeedsKernels(unit, "a gather");
  if (!unit.offloads_parameters()) {
    if (!rounds) return segment.shard;
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(*tools.kernels, segment.shard, slice));
    return slice;
  }
  if (!rounds) {
    ZEROTH_RETURN_IF_ERROR(segment.offloaded_shard.Read(0, slice, comm));
    return slice;
  }
  ZEROTH_CHECK(tools.staging != nullptr);
  ZEROTH_RETURN_IF_ERROR(ReadRounded(unit, i, slice, *tools.kernels, *tools.staging, comm));
  return slice;
}

absl::StatusOr<CollectiveContext> PrepareGather(Unit& unit, Communicator& group,
                                                const GatherTools& tools, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kSharded, "gather"));
  if (!unit.precision().computes_in_masters() && tools.kernels == nullptr) {
    return NeedsKernels(unit, "a gather");
  }
  ZEROTH_RETURN_IF_ERROR(AcquireFullParameters(unit, *tools.buffers, comm));
  return CollectiveContextOf(unit, group, comm, tools.kernels, tools.collective_scratch);
}

absl::Status GatherSegments(Unit& unit, Communicator& group, const GatherTools& tools,
                            Stream& comm) {
  ZEROTH_ASSIGN_OR_RETURN(const CollectiveContext context, PrepareGather(unit, group, tools, comm));
  std::vector<UnitGather> gathers;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_full(i)) continue;
    const Tensor& full = unit.segment(i).full;
    ZEROTH_ASSIGN_OR_RETURN(const Tensor mine,
                            OwnPart(unit, i, SliceOf(unit, i, full), tools, comm));
    if (!unit.is_replicated(i)) gathers.push_back({mine, full});
  }
  ZEROTH_RETURN_IF_ERROR(unit.collectives().AllGatherAll(gathers, context));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done,
                          FullParameterBytes(unit) > 0 ? comm.Record() : std::shared_ptr<Event>());
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

absl::Status ZeroGaps(Unit& unit, int segment, const Tensor& full, Stream& stream) {
  for (const ShardLayout::Gap& gap : unit.layout().Gaps(segment)) {
    const Tensor view = full.View(gap.offset, Shape({gap.numel}));
    ZEROTH_RETURN_IF_ERROR(unit.device().FillZero(view.raw_data(), view.bytes(), stream));
  }
  return absl::OkStatus();
}

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
    if (!unit.is_replicated(i)) gathers.push_back({mine, full});
  }
  return group.AllGatherAll(gathers, comm, unit.name());
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> GatherMasters(const Unit& unit, Communicator& group,
                                                  Stream& comm) {
  std::vector<Tensor> masters;
  const absl::Status status = GatherMastersInto(masters, unit, group, comm);
  if (status.ok()) return masters;
  // What is enqueued by then writes to the masters, which are freed here.
  comm.Synchronize().IgnoreError();
  return status;
}

}  // namespace zeroth
