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

// A collective on the way: a reduce-scatter, of which each rank gets its piece, or an all-reduce.
struct Step {
  Communicator* group;
  bool scatters;
  bool is_across = false;
};

// The reduction of one segment.
struct Reduction {
  Unit& unit;
  int index;
  const ReductionOptions& options;
  GradientSync sync;
  const ReductionStream* on = &options.inside;  // what comes next
  Tensor handed_over = {};                      // a buffer of those for sums that are used across
  bool full_is_used_across = false;             // the full gradient's memory

  Stream& stream() const { return *on->stream; }
  Unit::Segment& segment() const { return unit.segment(index); }
  bool is_last() const { return sync == GradientSync::kFinish; }
  bool is_replicated() const { return unit.is_replicated(index); }
  // What the last micro-batch can do for all of them is left to it, except in a tree.
  bool is_over_all_ranks() const { return is_last() || unit.sums_in_tree(); }
  // Whether what comes next is used on another stream.
  bool hands_over() const {
    return on == &options.inside && options.across.stream != nullptr && !is_replicated() &&
           is_over_all_ranks() && unit.mesh().replicate_size() > 1;
  }
  // What the optimizer reads is this; the tree's sums and those of groups come before it.
  DType result_dtype() const {
    return unit.offloads_gradients() ? segment().offloaded_grad_shard.dtype()
                                     : segment().grad_shard.dtype();
  }
};

// Groups of one rank have nothing to do.
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
  if (in.on->scratch->kernels() != nullptr) return in.on->scratch->kernels();
  return NeedsKernels(in.unit, "a reduction in several steps");
}

absl::StatusOr<Tensor> AllocateFp32(const Reduction& in, const Shape& shape) {
  const int64_t bytes = shape.numel() * static_cast<int64_t>(SizeOf(DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor memory,
      AllocateBytes(in.unit.device(), bytes, MemoryCategory::kGradients, in.stream()));
  return memory.ViewAs(0, shape, DType::kFloat32);
}

// `values` → `target`, unless they are the same memory already.
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

// [numel] for a sum that is on its way, until the segment's end.
absl::StatusOr<Tensor> TakeFp32(Reduction& in, int64_t numel) {
  if (!in.hands_over()) return in.on->scratch->Take(numel, in.stream());
  ZEROTH_CHECK(!in.handed_over.defined());
  const int64_t bytes = numel * static_cast<int64_t>(SizeOf(DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(in.handed_over, in.options.handed_over->Acquire(bytes, in.stream()));
  return in.handed_over.ViewAs(0, Shape({numel}), DType::kFloat32);
}

// `values` in fp32, in `end` if it can hold them.
absl::StatusOr<Tensor> Widened(Reduction& in, const Tensor& values, const Tensor& end) {
  if (values.dtype() == DType::kFloat32) return values;
  Tensor wide = end;
  if (!Holds(end, values.numel(), DType::kFloat32)) {
    ZEROTH_ASSIGN_OR_RETURN(wide, TakeFp32(in, values.numel()));
  }
  ZEROTH_RETURN_IF_ERROR(Put(in, values, wide));
  return wide;
}

// What a reduce-scatter adds to: the sum of the step's earlier micro-batches, fp32; undefined if
// there is none.
absl::StatusOr<Tensor> SumThatWaits(Reduction& in) {
  if (!in.unit.has_accumulated() || in.unit.sums_in_tree() || in.is_replicated()) return Tensor();
  if (!in.segment().waiting_sums.empty()) return in.segment().waiting_sums[0];
  if (!in.unit.offloads_gradients()) return in.segment().grad_shard;
  const OffloadedTensor& store = in.segment().offloaded_grad_shard;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, TakeFp32(in, store.numel()));
  ZEROTH_RETURN_IF_ERROR(store.Read(0, sum, in.stream()));
  return sum;
}

// Where the piece of `values` that this rank gets of a reduce-scatter is made.
absl::StatusOr<Tensor> PlaceOfPiece(Reduction& in, const Tensor& values, const Communicator& group,
                                    DType dtype, const Tensor& end) {
  const int64_t numel = values.numel() / group.size();
  if (Holds(end, numel, dtype)) return end;
  if (values.dtype() == dtype) return values.View(group.rank() * numel, Shape({numel}));
  return TakeFp32(in, numel);
}

// From here on `values`, and what comes of them, are used on the stream across groups.
absl::Status HandOver(Reduction& in, const Tensor& values) {
  if (!in.hands_over()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> made, in.stream().Record());
  in.on = &in.options.across;
  in.full_is_used_across = values.buffer() == in.segment().grad.buffer();
  ZEROTH_RETURN_IF_ERROR(in.stream().Wait(made));
  Timeline* const timeline = in.options.timeline;
  return timeline == nullptr ? absl::OkStatus() : timeline->Begin(in.stream(), AcrossLabel(in));
}

// Inside the group → across groups → scaled. The sum is made in `end`, where that is of the sum's
// size and type, or in the memory of the full gradient, or in scratch. It is fp32 unless a single
// collective can leave it in a narrower `result` without a rounding in between.
absl::StatusOr<Tensor> SumOverRanks(Reduction& in, const Tensor& end, DType result) {
  const ReductionOptions& options = in.options;
  const bool scales = options.scale != 1 && in.is_last();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor waits, SumThatWaits(in));
  Tensor values = in.segment().grad;
  const std::vector<Step> steps = StepsOf(in);
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool is_end = i + 1 == steps.size() && !scales;
    const DType dtype = is_end && values.dtype() != DType::kFloat32 ? result : DType::kFloat32;
    Communicator& group = *steps[i].group;
    if (steps[i].is_across) ZEROTH_RETURN_IF_ERROR(HandOver(in, values));
    ZEROTH_ASSIGN_OR_RETURN(
        const CollectiveContext context,
        CollectiveContextOf(in.unit, group, in.stream(), in.on->collective_scratch));
    if (!steps[i].scatters) {
      if (dtype == DType::kFloat32) {
        ZEROTH_ASSIGN_OR_RETURN(values, Widened(in, values, end));
      }
      ZEROTH_RETURN_IF_ERROR(in.unit.collectives().AllReduce(values, options.op, context));
      continue;
    }
    const bool adds = i == 0 && waits.defined();
    Tensor piece = waits;
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

// Rounds once, to where the optimizer reads it.
absl::Status Store(Reduction& in, Tensor sum) {
  const Unit::Segment& segment = in.segment();
  if (!in.unit.offloads_gradients()) return Put(in, sum, segment.grad_shard);
  const OffloadedTensor& store = segment.offloaded_grad_shard;
  if (sum.dtype() != store.dtype()) {
    // Nobody needs the full gradient any more.
    const Tensor rounded = segment.grad.View(0, sum.shape());
    in.full_is_used_across = in.on == &in.options.across;
    ZEROTH_RETURN_IF_ERROR(Put(in, sum, rounded));
    sum = rounded;
  }
  return store.Write(0, sum, in.stream());
}

// Shards that micro-batches add up to are fp32.
absl::Status WidenShard(const Reduction& in) {
  Unit::Segment& segment = in.segment();
  if (in.unit.offloads_gradients()) {
    segment.offloaded_grad_shard = segment.offloaded_grad_shard.As(DType::kFloat32);
    return absl::OkStatus();
  }
  if (segment.grad_shard.dtype() == DType::kFloat32) return absl::OkStatus();
  const Shape shape = segment.grad_shard.shape();
  segment.grad_shard = Tensor();  // never both
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
    // It ends here until the last micro-batch crosses groups for all of them.
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

// The number of sums that wait after `count` micro-batches, see tree_sum.h.
int SumsThatWait(int64_t count) { return std::popcount(static_cast<uint64_t>(count)); }

// The place of the sum that waits below `level` others. The first is what the optimizer reads if
// that is fp32 in memory.
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

// The sum at `level` += `upper`.
absl::Status AddToLevel(const Reduction& in, int level, const Tensor& upper) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor lower, Level(in, level));
  ZEROTH_ASSIGN_OR_RETURN(Kernels* const kernels, KernelsOf(in));
  return kernels::Add(*kernels, lower, upper, lower);
}

// Adds neighbours, the topmost first, until as many sums as `left` wait.
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
  // What is left at the step's end becomes one sum, the smallest first.
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

// Ends what a segment's reduction has done on the stream across groups.
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
  // What waits may have been made across groups.
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
    // After an error streams end before anybody gets the buffer.
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
