// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// One segment's sum over ranks: the part of a reduction (gradient_reduction.h) that is collectives.

#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/strategies/gradient_reduction.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// The reduction of one segment.
struct SegmentReduction {
  Unit& unit;
  int index;
  const ReductionOptions& options;
  GradientSync sync;
  const ReductionStream* on = &options.inside;  // where the next step runs
  // Where the sum over ranks is to be, if that is of its size and type, and the narrowest type that
  // it may have there.
  Tensor end = {};
  DType end_dtype = DType::kFloat32;
  Tensor piece = {};                 // what the first step has left, if ScatterTogether did it
  Tensor handed_over = {};           // of ReductionOptions::handed_over, if one is in use
  bool full_is_used_across = false;  // the stream across uses the full gradient's memory

  Stream& stream() const { return *on->stream; }
  Unit::Segment& segment() const { return unit.segment(index); }
  bool is_last() const { return sync == GradientSync::kFinish; }
  bool is_replicated() const { return unit.is_replicated(index); }
  // True if this micro-batch is reduced over all ranks. Without a tree only the last one is, with
  // the sum of those before it.
  bool is_over_all_ranks() const { return is_last() || unit.sums_in_tree(); }
  // True if the sum is multiplied, after the last collective.
  bool is_scaled() const { return options.scale != 1 && is_last(); }
  // True if this micro-batch is not the last one and is added up in the shard, or in the sum that
  // waits in its place.
  bool adds_up_in_shard() const { return !is_last() && !is_replicated() && !unit.sums_in_tree(); }
  // True if only the last micro-batch crosses groups, with the sum of all.
  bool waits_for_other_groups() const {
    return adds_up_in_shard() && unit.mesh().owners_span_groups();
  }
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

// Copies or rounds `values` to `target`, unless they are the same memory.
absl::Status Put(const SegmentReduction& in, const Tensor& values, const Tensor& target);

// Returns the kernels of the stream that the reduction is on, or an error if there are none.
absl::StatusOr<Kernels*> KernelsOf(const SegmentReduction& in);

// Takes the first step of those that reduce-scatter inside the group, and need no scratch for it,
// as one call.
absl::Status ScatterTogether(Unit& unit, const ReductionOptions& options,
                             std::vector<SegmentReduction>& reductions);

// Reduces inside the group and across groups, and scales. Returns the sum: in `in.end` if that is
// of the sum's size and type, else in the full gradient's memory, else in scratch. The sum is fp32,
// unless the last collective can write it as the narrower type `in.end_dtype` and nothing is scaled
// after it.
absl::StatusOr<Tensor> SumOverRanks(SegmentReduction& in);

// Ends a segment's work on the stream across groups.
absl::Status EndAcross(SegmentReduction& in);

}  // namespace zeroth
