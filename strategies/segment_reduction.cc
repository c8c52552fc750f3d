// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/segment_reduction.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/flat_collectives.h"
#include "zeroth/strategies/unit_collectives.h"

namespace zeroth {
namespace {

// One collective of a reduction.
struct Step {
  Communicator* group;
  bool scatters;  // a reduce-scatter, otherwise an all-reduce
  bool is_across = false;
};

// The segment's collectives, without those of groups of one rank. An empty segment has none.
std::vector<Step> StepsOf(const SegmentReduction& in) {
  std::vector<Step> steps;
  const auto add = [&](const Step& step) {
    if (step.group->size() > 1) steps.push_back(step);
  };
  const MeshView& mesh = in.unit.mesh();
  if (in.segment().grad.numel() == 0) return steps;
  if (!in.is_replicated()) add({&mesh.shard_reduce(), /*scatters=*/true});
  if (!in.is_over_all_ranks()) return steps;
  if (in.is_replicated()) {
    add({&mesh.data_reduce(), /*scatters=*/false});
  } else {
    add({&mesh.replicate_reduce(), mesh.owners_span_groups(), /*is_across=*/true});
  }
  return steps;
}

std::string AcrossLabel(const SegmentReduction& in) {
  return absl::StrCat("reduce across ", in.unit.name());
}

bool Holds(const Tensor& place, int64_t numel, DType dtype) {
  return place.defined() && place.numel() == numel && place.dtype() == dtype;
}

// Takes scratch memory, fp32 [numel], for an intermediate sum of this segment.
absl::StatusOr<Tensor> TakeFp32(SegmentReduction& in, int64_t numel) {
  if (!in.hands_over()) return in.on->scratch->Take(numel, in.stream());
  ZEROTH_CHECK(!in.handed_over.defined());
  const int64_t bytes = numel * static_cast<int64_t>(SizeOf(DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(in.handed_over, in.options.handed_over->Acquire(bytes, in.stream()));
  return in.handed_over.ViewAs(0, Shape({numel}), DType::kFloat32);
}

// Returns `values` as fp32, in `in.end` if that is fp32 and of their size.
absl::StatusOr<Tensor> Widened(SegmentReduction& in, const Tensor& values) {
  if (values.dtype() == DType::kFloat32) return values;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor wide, Holds(in.end, values.numel(), DType::kFloat32)
                                                 ? in.end
                                                 : TakeFp32(in, values.numel()));
  ZEROTH_RETURN_IF_ERROR(Put(in, values, wide));
  return wide;
}

// True if the reduce-scatter adds to the sum of the step's earlier micro-batches.
bool AddsToEarlier(const SegmentReduction& in) {
  return in.unit.has_accumulated() && !in.unit.sums_in_tree() && !in.is_replicated();
}

// Returns that sum, fp32; undefined if it is offloaded.
Tensor EarlierInMemory(const SegmentReduction& in) {
  if (!in.segment().waiting_sums.empty()) return in.segment().waiting_sums[0];
  return in.unit.offloads_gradients() ? Tensor() : in.segment().grad_shard;
}

// Returns that sum, if there is one, in scratch if it is offloaded.
absl::StatusOr<Tensor> SumOfEarlier(SegmentReduction& in) {
  if (!AddsToEarlier(in)) return Tensor();
  if (Tensor sum = EarlierInMemory(in); sum.defined()) return sum;
  const StateTensor& store = in.segment().offloaded_grad_shard;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, TakeFp32(in, store.numel()));
  ZEROTH_RETURN_IF_ERROR(store.Read(0, sum, in.stream()));
  return sum;
}

// Returns the type of the sum that `steps[i]` makes of values of type `before`.
DType DTypeAfter(const SegmentReduction& in, const std::vector<Step>& steps, size_t i,
                 DType before) {
  const bool is_end = i + 1 == steps.size() && !in.is_scaled();
  return is_end && before != DType::kFloat32 ? in.end_dtype : DType::kFloat32;
}

// Returns the memory for this rank's piece of the reduce-scatter of `values`: `in.end` if that is
// of the right size and type, else a part of `values`; undefined if it has to be scratch.
Tensor PlaceOfPiece(const SegmentReduction& in, const Tensor& values, const Communicator& group,
                    DType dtype) {
  const int64_t numel = values.numel() / group.size();
  if (Holds(in.end, numel, dtype)) return in.end;
  if (values.dtype() == dtype) return values.View(group.rank() * numel, Shape({numel}));
  return Tensor();
}

// Moves the reduction of `values` to the stream across groups, if there is one for it.
absl::Status HandOver(SegmentReduction& in, const Tensor& values) {
  if (!in.hands_over()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> made, in.stream().Record());
  in.on = &in.options.across;
  in.full_is_used_across = values.buffer() == in.segment().grad.buffer();
  ZEROTH_RETURN_IF_ERROR(in.stream().Wait(made));
  Timeline* const timeline = in.options.timeline;
  return timeline == nullptr ? absl::OkStatus() : timeline->Begin(in.stream(), AcrossLabel(in));
}

}  // namespace

absl::Status Put(const SegmentReduction& in, const Tensor& values, const Tensor& target) {
  if (values.raw_data() == target.raw_data()) return absl::OkStatus();
  if (values.dtype() == target.dtype()) {
    return in.unit.device().Copy(target.raw_data(), values.raw_data(), values.bytes(), in.stream());
  }
  ZEROTH_ASSIGN_OR_RETURN(Kernels* const kernels, KernelsOf(in));
  return kernels::Cast(*kernels, values, target);
}

absl::StatusOr<Kernels*> KernelsOf(const SegmentReduction& in) {
  if (in.on->kernels != nullptr) return in.on->kernels;
  return NeedsKernels(in.unit, "a reduction in several steps");
}

absl::Status ScatterTogether(Unit& unit, const ReductionOptions& options,
                             std::vector<SegmentReduction>& reductions) {
  Communicator& group = unit.mesh().shard_reduce();
  std::vector<UnitReduction> scatters;
  for (SegmentReduction& in : reductions) {
    const Tensor& full = in.segment().grad;
    const std::vector<Step> steps = StepsOf(in);
    if (steps.empty() || !steps[0].scatters || steps[0].is_across) continue;
    const bool adds = AddsToEarlier(in);
    in.piece = adds ? EarlierInMemory(in)
                    : PlaceOfPiece(in, full, group, DTypeAfter(in, steps, 0, full.dtype()));
    if (in.piece.defined()) scatters.push_back({full, in.piece, adds});
  }
  if (scatters.empty()) return absl::OkStatus();
  const ReductionStream& inside = options.inside;
  ZEROTH_ASSIGN_OR_RETURN(
      const CollectiveContext context,
      CollectiveContextOf(unit, group, *inside.stream, inside.kernels, inside.collective_scratch));
  return unit.collectives().ReduceScatterAll(scatters, options.op, context);
}

absl::StatusOr<Tensor> SumOverRanks(SegmentReduction& in) {
  const ReductionOptions& options = in.options;
  const std::vector<Step> steps = StepsOf(in);
  const bool has_piece = in.piece.defined();
  Tensor values = has_piece ? in.piece : in.segment().grad;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor earlier, has_piece ? Tensor() : SumOfEarlier(in));
  for (size_t i = has_piece ? 1 : 0; i < steps.size(); ++i) {
    const DType dtype = DTypeAfter(in, steps, i, values.dtype());
    Communicator& group = *steps[i].group;
    if (steps[i].is_across) ZEROTH_RETURN_IF_ERROR(HandOver(in, values));
    ZEROTH_ASSIGN_OR_RETURN(const CollectiveContext context,
                            CollectiveContextOf(in.unit, group, in.stream(), in.on->kernels,
                                                in.on->collective_scratch));
    if (!steps[i].scatters) {
      if (dtype == DType::kFloat32) {
        ZEROTH_ASSIGN_OR_RETURN(values, Widened(in, values));
      }
      ZEROTH_RETURN_IF_ERROR(in.unit.collectives().AllReduce(values, options.op, context));
      continue;
    }
    const bool adds = i == 0 && earlier.defined();
    Tensor piece = adds ? earlier : PlaceOfPiece(in, values, group, dtype);
    if (!piece.defined()) {
      ZEROTH_ASSIGN_OR_RETURN(piece, TakeFp32(in, values.numel() / group.size()));
    }
    ZEROTH_RETURN_IF_ERROR(
        in.unit.collectives().ReduceScatter(values, piece, options.op, adds, context));
    values = piece;
  }
  if (in.is_scaled() || in.end_dtype == DType::kFloat32) {
    ZEROTH_ASSIGN_OR_RETURN(values, Widened(in, values));
  }
  if (!in.is_scaled()) return values;
  ZEROTH_ASSIGN_OR_RETURN(Kernels* const kernels, KernelsOf(in));
  ZEROTH_RETURN_IF_ERROR(kernels::Scale(*kernels, values, static_cast<float>(options.scale)));
  return values;
}

absl::Status EndAcross(SegmentReduction& in) {
  if (in.on != &in.options.across) return absl::OkStatus();
  if (in.options.timeline != nullptr) {
    ZEROTH_RETURN_IF_ERROR(in.options.timeline->End(in.stream(), AcrossLabel(in)));
  }
  if (!in.handed_over.defined()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> used, in.stream().Record());
  in.options.handed_over->Release(std::move(in.handed_over), std::move(used));
  return absl::OkStatus();
}

}  // namespace zeroth
