// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/gradient_reduction.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/strategies/unit_collectives.h"

namespace zeroth {
namespace {

// One collective of a reduction.
struct Step {
  Communicator* group;
  bool scatters;  // a reduce-scatter, otherwise an all-reduce
  bool is_across = false;
};

// The reduction of one segment.
struct Reduction {
  Unit& unit;
  int index;
  const ReductionOptions& options;
  GradientSync sync;
  const ReductionStream* on = &options.inside;  // where the next step runs
  Tensor handed_over = {};           // of ReductionOptions::handed_over, if one is in use
  bool full_is_used_across = false;  // the stream across uses the full gradient's memory

  Stream& stream() const { return *on->stream; }
  Unit::Segment& segment() const { return unit.segment(index); }
  bool is_last() const { return sync == GradientSync::kFinish; }
  bool is_replicated() const { return unit.is_replicated(index); }
  // True if this micro-batch is reduced over all ranks. Without a tree only the last one is, with
  // the sum of those before it.
  bool is_over_all_ranks() const { return is_last() || unit.sums_in_tree(); }
  // True if the next collective runs on the stream across groups.
  bool hands_over() const {
    return on == &options.inside && options.across.stream != nullptr && !is_replicated() &&
           is_over_all_ranks() && unit.mesh().replicate_size() > 1;
  }
  // The type of the gradients that the optimizer reads.
  DType result_dtype() const {
    return unit.offloads_gradients() ? segment().offloaded_grad_shard.dtype()
                                     : segment().grad_shard.dtype();
  }
};

// The segment's collectives, without those of groups of one rank.
std::vector<Step> StepsOf(const Reduction& in) {
  std::vector<Step> steps;
  const auto add = [&](const Step& step) {
    if (step.group->size() > 1) steps.push_back(step);
  };
  const MeshView& mesh = in.unit.mesh();
  if (!in.is_replicated()) add({&mesh.shard_reduce(), /*scatters=*/true});
  if (!in.is_over_all_ranks()) return steps;
  if (in.is_replicated()) {
    add({&mesh.data_reduce(), /*scatters=*/false});
  } else {
    add({&mesh.replicate_reduce(), mesh.owners_span_groups(), /*is_across=*/true});
  }
  return steps;
}

std::string AcrossLabel(const Reduction& in) {
  return absl::StrCat("reduce across ", in.unit.name());
}

absl::StatusOr<Kernels*> KernelsOf(const Reduction& in) {
  if (in.on->kernels != nullptr) return in.on->kernels;
  return NeedsKernels(in.unit, "a reduction in several steps");
}

absl::StatusOr<Tensor> AllocateFp32(const Reduction& in, const Shape& shape) {
  const int64_t bytes = shape.numel() * static_cast<int64_t>(SizeOf(DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor memory,
      AllocateBytes(in.unit.device(), bytes, MemoryCategory::kGradients, in.stream()));
  return memory.ViewAs(0, shape, DType::kFloat32);
}

// Copies or rounds `values` to `target`, unless they are the same memory.
absl::Status Put(const Reduction& in, const Tensor& values, const Tensor& target) {
  if (values.raw_data() == target.raw_data()) return absl::OkStatus();
  if (values.dtype() == target.dtype()) {
    return in.unit.device().Copy(target.raw_data(), values.raw_data(), values.bytes(), in.stream());
  }
  ZEROTH_ASSIGN_OR_RETURN(Kernels* const kernels, KernelsOf(in));
  return kernels::Cast(*kernels, values, target);
}

bool Holds(const Tensor& place, int64_t numel, DType dtype) {
  return place.defined() && place.numel() == numel && place.dtype() == dtype;
}

// Takes scratch memory, fp32 [numel], for an intermediate sum of this segment.
absl::StatusOr<Tensor> TakeFp32(Reduction& in, int64_t numel) {
  if (!in.hands_over()) return in.on->scratch->Take(numel, in.stream());
  ZEROTH_CHECK(!in.handed_over.defined());
  const int64_t bytes = numel * static_cast<int64_t>(SizeOf(DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(in.handed_over, in.options.handed_over->Acquire(bytes, in.stream()));
  return in.handed_over.ViewAs(0, Shape({numel}), DType::kFloat32);
}

// Returns `values` as fp32, in `end` if that is fp32 and of their size.
absl::StatusOr<Tensor> Widened(Reduction& in, const Tensor& values, const Tensor& end) {
  if (values.dtype() == DType::kFloat32) return values;
  Tensor wide = end;
  if (!Holds(end, values.numel(), DType::kFloat32)) {
    ZEROTH_ASSIGN_OR_RETURN(wide, TakeFp32(in, values.numel()));
  }
  ZEROTH_RETURN_IF_ERROR(Put(in, values, wide));
  return wide;
}

// Returns the fp32 sum of the step's earlier micro-batches, to which the reduce-scatter adds;
// undefined if there is none.
absl::StatusOr<Tensor> SumOfEarlier(Reduction& in) {
  if (!in.unit.has_accumulated() || in.unit.sums_in_tree() || in.is_replicated()) return Tensor();
  if (!in.segment().waiting_sums.empty()) return in.segment().waiting_sums[0];
  if (!in.unit.offloads_gradients()) return in.segment().grad_shard;
  const OffloadedTensor& store = in.segment().offloaded_grad_shard;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, TakeFp32(in, store.numel()));
  ZEROTH_RETURN_IF_ERROR(store.Read(0, sum, in.stream()));
  return sum;
}

// Returns the memory for this rank's piece of the reduce-scatter of `values`: `end` if that is of
// the right size and type, else a part of `values`, else scratch.
absl::StatusOr<Tensor> PlaceOfPiece(Reduction& in, const Tensor& values, const Communicator& group,
                                    DType dtype, const Tensor& end) {
  const int64_t numel = values.numel() / group.size();
  if (Holds(end, numel, dtype)) return end;
  if (values.dtype() == dtype) return values.View(group.rank() * numel, Shape({numel}));
  return TakeFp32(in, numel);
}

// Moves the reduction of `values` to the stream across groups, if there is one for it.
absl::Status HandOver(Reduction& in, const Tensor& values) {
  if (!in.hands_over()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> made, in.stream().Record());
  in.on = &in.options.across;
  in.full_is_used_across = values.buffer() == in.segment().grad.buffer();
  ZEROTH_RETURN_IF_ERROR(in.stream().Wait(made));
  Timeline* const timeline = in.options.timeline;
  return timeline == nullptr ? absl::OkStatus() : timeline->Begin(in.stream(), AcrossLabel(in));
}

// Reduces inside the group and across groups, and scales. Returns the sum: in `end` if that is of
// the sum's size and type, else in the full gradient's memory, else in scratch. The sum is fp32,
// unless the last collective can write it as the narrower type `result` and nothing is scaled after
// it.
absl::StatusOr<Tensor> SumOverRanks(Reduction& in, const Tensor& end, DType result) {
  const ReductionOptions& options = in.options;
  const bool scales = options.scale != 1 && in.is_last();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor earlier, SumOfEarlier(in));
  Tensor values = in.segment().grad;
  const std::vector<Step> steps = StepsOf(in);
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool is_end = i + 1 == steps.size() && !scales;
    const DType dtype = is_end && values.dtype() != DType::kFloat32 ? result : DType::kFloat32;
    Communicator& group = *steps[i].group;
    if (steps[i].is_across) ZEROTH_RETURN_IF_ERROR(HandOver(in, values));
    ZEROTH_ASSIGN_OR_RETURN(const CollectiveContext context,
                            CollectiveContextOf(in.unit, group, in.stream(), in.on->kernels,
                                                in.on->collective_scratch));
    if (!steps[i].scatters) {
      if (dtype == DType::kFloat32) {
        ZEROTH_ASSIGN_OR_RETURN(values, Widened(in, values, end));
      }
      ZEROTH_RETURN_IF_ERROR(in.unit.collectives().AllReduce(values, options.op, context));
      continue;
    }
    const bool adds = i == 0 && earlier.defined();
    Tensor piece = earlier;
    if (!adds) {
      ZEROTH_ASSIGN_OR_RETURN(piece, PlaceOfPiece(in, values, group, dtype, end));
    }
    ZEROTH_RETURN_IF_ERROR(
        in.unit.collectives().ReduceScatter(values, piece, options.op, adds, context));
    values = piece;
  }
  if (scales || result == DType::kFloat32) {
    ZEROTH_ASSIGN_OR_RETURN(values, Widened(in, values, end));
  }
  if (!scales) return values;
  ZEROTH_ASSIGN_OR_RETURN(Kernels* const kernels, KernelsOf(in));
  ZEROTH_RETURN_IF_ERROR(kernels::Scale(*kernels, values, static_cast<float>(options.scale)));
  return values;
}

// Rounds the sum, and stores it where the optimizer reads it.
absl::Status Store(Reduction& in, Tensor sum) {
  const Unit::Segment& segment = in.segment();
  if (!in.unit.offloads_gradients()) return Put(in, sum, segment.grad_shard);
  const OffloadedTensor& store = segment.offloaded_grad_shard;
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
absl::Status WidenShard(const Reduction& in) {
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

absl::Status ReduceSegment(Reduction& in) {
  Unit::Segment& segment = in.segment();
  const bool adds_up_in_shard = !in.is_last() && !in.is_replicated();
  if (adds_up_in_shard || segment.grad.dtype() == DType::kFloat32) {
    ZEROTH_RETURN_IF_ERROR(WidenShard(in));
  }
  if (segment.grad.numel() == 0) return absl::OkStatus();
  if (adds_up_in_shard && in.unit.mesh().owners_span_groups()) {
    // Only the last micro-batch crosses groups, with the sum of all.
    if (segment.waiting_sums.empty()) {
      const Shape part({segment.grad.numel() / in.unit.mesh().shard_size()});
      ZEROTH_ASSIGN_OR_RETURN(Tensor sum, AllocateFp32(in, part));
      segment.waiting_sums.push_back(std::move(sum));
    }
    return SumOverRanks(in, segment.waiting_sums[0], DType::kFloat32).status();
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum,
                          SumOverRanks(in, segment.grad_shard, in.result_dtype()));
  return Store(in, sum);
}

// Returns the number of sums that wait after `count` micro-batches, see tree_sum.h.
int SumsThatWait(int64_t count) { return std::popcount(static_cast<uint64_t>(count)); }

// Returns the memory of waiting sum number `level`, allocated if need be. Number 0 is the shard
// that the optimizer reads, if that is fp32 in memory.
absl::StatusOr<Tensor> Level(const Reduction& in, int level) {
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
absl::Status AddToLevel(const Reduction& in, int level, const Tensor& upper) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor lower, Level(in, level));
  ZEROTH_ASSIGN_OR_RETURN(Kernels* const kernels, KernelsOf(in));
  return kernels::Add(*kernels, lower, upper, lower);
}

// Adds the last of `waiting` sums to the one before it, until `left` sums wait.
absl::Status AddUp(const Reduction& in, int waiting, int left) {
  for (; waiting > left; --waiting) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor upper, Level(in, waiting - 1));
    ZEROTH_RETURN_IF_ERROR(AddToLevel(in, waiting - 2, upper));
  }
  return absl::OkStatus();
}

absl::Status ReduceSegmentInTree(Reduction& in) {
  if (in.segment().grad.numel() == 0) return absl::OkStatus();
  const int64_t done = in.unit.micro_batches_accumulated();
  int waiting = SumsThatWait(done);
  if (done % 2 == 0) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor place, Level(in, waiting));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, SumOverRanks(in, place, DType::kFloat32));
    ZEROTH_RETURN_IF_ERROR(Put(in, sum, place));
    ++waiting;
  } else {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, SumOverRanks(in, Tensor(), DType::kFloat32));
    ZEROTH_RETURN_IF_ERROR(AddToLevel(in, waiting - 1, sum));
  }
  // At the step's end all waiting sums become one, beginning with the smallest.
  ZEROTH_RETURN_IF_ERROR(AddUp(in, waiting, in.is_last() ? 1 : SumsThatWait(done + 1)));
  if (!in.is_last()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, Level(in, 0));
  return Store(in, sum);
}

absl::Status ExpectPlaceInTree(const Unit& unit, GradientSync sync) {
  const int64_t expected = unit.tree_micro_batches();
  const int64_t number = unit.micro_batches_accumulated() + 1;
  const bool is_last = sync == GradientSync::kFinish;
  if (is_last == (number == expected) && number <= expected) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "unit '", unit.name(), "': micro-batch ", number, " of the step is ", is_last ? "" : "not ",
      "its last one, but gradients are summed in the tree of ", expected,
      " micro-batches a rank (tree_micro_batches); expected steps of as many"));
}

// Ends a segment's work on the stream across groups.
absl::Status EndAcross(Reduction& in) {
  if (in.on != &in.options.across) return absl::OkStatus();
  if (in.options.timeline != nullptr) {
    ZEROTH_RETURN_IF_ERROR(in.options.timeline->End(in.stream(), AcrossLabel(in)));
  }
  if (!in.handed_over.defined()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> used, in.stream().Record());
  in.options.handed_over->Release(std::move(in.handed_over), std::move(used));
  return absl::OkStatus();
}

}  // namespace

absl::Status ReduceGradients(Unit& unit, const ReductionOptions& options, GradientSync sync,
                             FullBuffers& buffers) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectGradientState(GradientState::kFull, "reduce gradients"));
  if (unit.tree_micro_batches() > 0) ZEROTH_RETURN_IF_ERROR(ExpectPlaceInTree(unit, sync));
  Stream& inside = *options.inside.stream;
  // The stream across groups may have made the sums of earlier micro-batches.
  if (unit.has_accumulated()) ZEROTH_RETURN_IF_ERROR(inside.Wait(unit.reduce_event()));
  bool goes_across = false;
  bool full_is_used_across = false;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (!unit.segment_layout(i).trainable) continue;
    Reduction reduction{unit, i, options, sync};
    ZEROTH_RETURN_IF_ERROR(ZeroGaps(unit, i, unit.segment(i).grad, inside));
    absl::Status reduced =
        unit.sums_in_tree() ? ReduceSegmentInTree(reduction) : ReduceSegment(reduction);
    if (reduced.ok()) reduced = EndAcross(reduction);
    // After an error, streams are synchronised before the buffer is used again.
    if (reduction.handed_over.defined()) {
      options.handed_over->Release(std::move(reduction.handed_over), nullptr);
    }
    ZEROTH_RETURN_IF_ERROR(reduced);
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
