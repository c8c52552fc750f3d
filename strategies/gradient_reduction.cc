// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/gradient_reduction.h"

#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/strategies/segment_reduction.h"
#include "zeroth/strategies/shard_layout.h"

namespace zeroth {
namespace {

absl::StatusOr<Tensor> AllocateFp32(const SegmentReduction& in, const Shape& shape) {
  const int64_t bytes = shape.numel() * static_cast<int64_t>(SizeOf(DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor memory,
      AllocateBytes(in.unit.device(), bytes, MemoryCategory::kGradients, in.stream()));
  return memory.ViewAs(0, shape, DType::kFloat32);
}

// Rounds the sum, and stores it where the optimizer reads it.
absl::Status Store(SegmentReduction& in, Tensor sum) {
  const Unit::Segment& segment = in.segment();
  if (!in.unit.offloads_gradients()) return Put(in, sum, segment.grad_shard);
  const StateTensor& store = segment.offloaded_grad_shard;
  if (sum.dtype() != store.dtype()) {
    // The full gradient's memory is free by now.
    const Tensor rounded = segment.grad.View(0, sum.shape());
    in.full_is_used_across = in.on == &in.options.across;
    ZEROTH_RETURN_IF_ERROR(Put(in, sum, rounded));
    sum = rounded;
  }
  return store.Write(0, sum, in.stream());
}

// Makes the shard of gradients fp32, as it has to be while micro-batches add up in it.
absl::Status WidenShard(const SegmentReduction& in) {
  Unit::Segment& segment = in.segment();
  if (in.unit.offloads_gradients()) {
    segment.offloaded_grad_shard = segment.offloaded_grad_shard.As(DType::kFloat32);
    return absl::OkStatus();
  }
  if (segment.grad_shard.dtype() == DType::kFloat32) return absl::OkStatus();
  const Shape shape = segment.grad_shard.shape();
  segment.grad_shard = Tensor();  // freed first, so that never both exist
  ZEROTH_ASSIGN_OR_RETURN(segment.grad_shard, AllocateFp32(in, shape));
  return absl::OkStatus();
}

// Returns the number of sums that wait after `count` micro-batches, see tree_sum.h.
int SumsThatWait(int64_t count) { return std::popcount(static_cast<uint64_t>(count)); }

// Returns the memory of waiting sum number `level`, allocated if need be. Number 0 is the shard
// that the optimizer reads, if that is fp32 in memory.
absl::StatusOr<Tensor> Level(const SegmentReduction& in, int level) {
  if (level == 0 && !in.unit.offloads_gradients() && in.result_dtype() == DType::kFloat32) {
    return in.segment().grad_shard;
  }
  std::vector<Tensor>& sums = in.segment().waiting_sums;
  if (sums.size() <= static_cast<size_t>(level)) sums.resize(static_cast<size_t>(level) + 1);
  Tensor& sum = sums[static_cast<size_t>(level)];
  if (sum.defined()) return sum;
  const Shape shard({in.unit.segment_layout(in.index).shard_numel});
  ZEROTH_ASSIGN_OR_RETURN(sum, AllocateFp32(in, shard));
  return sum;
}

// Adds `upper` to the waiting sum number `level`.
absl::Status AddToLevel(const SegmentReduction& in, int level, const Tensor& upper) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor lower, Level(in, level));
  ZEROTH_ASSIGN_OR_RETURN(Kernels* const kernels, KernelsOf(in));
  return kernels::Add(*kernels, lower, upper, lower);
}

// Adds the last of `waiting` sums to the one before it, until `left` sums wait.
absl::Status AddUp(const SegmentReduction& in, int waiting, int left) {
  for (; waiting > left; --waiting) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor upper, Level(in, waiting - 1));
    ZEROTH_RETURN_IF_ERROR(AddToLevel(in, waiting - 2, upper));
  }
  return absl::OkStatus();
}

// Decides where the segment's sum over ranks is to be, and in which type.
absl::Status ChooseEnd(SegmentReduction& in) {
  Unit::Segment& segment = in.segment();
  if (in.unit.sums_in_tree()) {
    const int64_t done = in.unit.micro_batches_accumulated();
    if (segment.grad.numel() == 0 || done % 2 != 0) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(in.end, Level(in, SumsThatWait(done)));
    return absl::OkStatus();
  }
  if (in.adds_up_in_shard() || segment.grad.dtype() == DType::kFloat32) {
    ZEROTH_RETURN_IF_ERROR(WidenShard(in));
  }
  if (!in.waits_for_other_groups()) {
    in.end = segment.grad_shard;
    in.end_dtype = in.result_dtype();
    return absl::OkStatus();
  }
  if (segment.waiting_sums.empty() && segment.grad.numel() > 0) {
    const Shape part({segment.grad.numel() / in.unit.mesh().shard_size()});
    ZEROTH_ASSIGN_OR_RETURN(Tensor sum, AllocateFp32(in, part));
    segment.waiting_sums.push_back(std::move(sum));
  }
  if (!segment.waiting_sums.empty()) in.end = segment.waiting_sums[0];
  return absl::OkStatus();
}

// Adds the sum over ranks to those that wait.
absl::Status AddToTree(SegmentReduction& in, const Tensor& sum) {
  const int64_t done = in.unit.micro_batches_accumulated();
  int waiting = SumsThatWait(done);
  if (done % 2 == 0) {
    ZEROTH_RETURN_IF_ERROR(Put(in, sum, in.end));
    ++waiting;
  } else {
    ZEROTH_RETURN_IF_ERROR(AddToLevel(in, waiting - 1, sum));
  }
  // At the step's end all waiting sums become one, beginning with the smallest.
  return AddUp(in, waiting, in.is_last() ? 1 : SumsThatWait(done + 1));
}

// Does all that ScatterTogether has not done.
absl::Status Finish(SegmentReduction& in) {
  if (in.segment().grad.numel() == 0) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(Tensor sum, SumOverRanks(in));
  if (in.unit.sums_in_tree()) {
    ZEROTH_RETURN_IF_ERROR(AddToTree(in, sum));
    if (!in.is_last()) return EndAcross(in);
    ZEROTH_ASSIGN_OR_RETURN(sum, Level(in, 0));
  }
  if (!in.waits_for_other_groups()) ZEROTH_RETURN_IF_ERROR(Store(in, std::move(sum)));
  return EndAcross(in);
}

// Returns an event after which neither stream uses what one has handed to the other; nullptr if
// both have failed, which ends their work.
std::shared_ptr<Event> AfterBoth(Stream& inside, Stream& across) {
  const absl::StatusOr<std::shared_ptr<Event>> made = inside.Record();
  if (made.ok()) across.Wait(*made).IgnoreError();
  const absl::StatusOr<std::shared_ptr<Event>> used = across.Record();
  if (used.ok()) return *used;
  return made.ok() ? *made : nullptr;
}

absl::Status ExpectPlaceInTree(const Unit& unit, GradientSync sync) {
  const int64_t expected = unit.tree_micro_batches();
  const int64_t number = unit.micro_batches_accumulated() + 1;
  const bool is_last = sync == GradientSync::kFinish;
  if (is_last == (number == expected) && number <= expected) return absl::OkStatus();
  return FailedPrecondition(
      "unit '", unit.name(), "': micro-batch ", number, " of the step is ", is_last ? "" : "not ",
      "its last one, but gradients are summed in the tree of ", expected,
      " micro-batches a rank (tree_micro_batches); expected steps of as many");
}

}  // namespace

absl::Status ReduceGradients(Unit& unit, const ReductionOptions& options, GradientSync sync,
                             FullBuffers& buffers) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectGradientState(GradientState::kFull, "reduce gradients"));
  if (unit.tree_micro_batches() > 0) ZEROTH_RETURN_IF_ERROR(ExpectPlaceInTree(unit, sync));
  Stream& inside = *options.inside.stream;
  // The stream across groups may have made the sums of earlier micro-batches.
  if (unit.has_accumulated()) ZEROTH_RETURN_IF_ERROR(inside.Wait(unit.reduce_event()));
  std::vector<SegmentReduction> reductions;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (!unit.segment_layout(i).trainable) continue;
    reductions.push_back({unit, i, options, sync});
    ZEROTH_RETURN_IF_ERROR(ZeroGaps(unit, i, unit.segment(i).grad, inside));
    ZEROTH_RETURN_IF_ERROR(ChooseEnd(reductions.back()));
  }
  ZEROTH_RETURN_IF_ERROR(ScatterTogether(unit, options, reductions));
  bool goes_across = false;
  bool full_is_used_across = false;
  for (SegmentReduction& reduction : reductions) {
    const absl::Status finished = Finish(reduction);
    if (reduction.handed_over.defined()) {
      options.handed_over->Release(std::move(reduction.handed_over),
                                   AfterBoth(inside, *options.across.stream));
    }
    ZEROTH_RETURN_IF_ERROR(finished);
    goes_across |= reduction.on == &options.across;
    full_is_used_across |= reduction.full_is_used_across;
  }
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done, inside.Record());
  std::shared_ptr<Event> full_is_read = done;
  if (goes_across) {
    ZEROTH_RETURN_IF_ERROR(options.across.stream->Wait(done));
    ZEROTH_ASSIGN_OR_RETURN(done, options.across.stream->Record());
    if (full_is_used_across) full_is_read = done;
  }
  ZEROTH_RETURN_IF_ERROR(sync == GradientSync::kFinish ? unit.MarkReduced(done)
                                                       : unit.MarkAccumulated(done));
  buffers.Release(unit, std::move(full_is_read));
  return absl::OkStatus();
}

}  // namespace zeroth
