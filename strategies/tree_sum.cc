// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/tree_sum.h"

#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/elementwise/elementwise.h"

namespace zeroth {
namespace {

// What one segment's reduction works with.
struct Work {
  Unit& unit;
  int index;
  const GradientGroups& groups;
  StreamScratch& scratch;
  Stream& comm;

  Unit::Segment& segment() const { return unit.segment(index); }
  Shape shape() const { return Shape({unit.segment_layout(index).shard_numel}); }
};

int Ones(int64_t value) { return std::popcount(static_cast<uint64_t>(value)); }

// True if the optimizer reads the sum where it is made.
bool EndsInPlace(const Unit& unit) {
  return !unit.offloads_gradients() && unit.precision().gradient_dtype() == DType::kFloat32;
}

// The place of the sum that waits below `level` others.
absl::StatusOr<Tensor> Level(const Work& work, int level) {
  if (level == 0 && EndsInPlace(work.unit)) return work.segment().grad_shard;
  std::vector<Tensor>& sums = work.segment().tree_sums;
  if (sums.size() <= static_cast<size_t>(level)) sums.resize(static_cast<size_t>(level) + 1);
  Tensor& sum = sums[static_cast<size_t>(level)];
  if (sum.defined()) return sum;
  ZEROTH_ASSIGN_OR_RETURN(sum, AllocateFp32Gradients(work.unit, work.shape(), work.comm));
  return sum;
}

// Owners span groups: inside the shard group, then across groups. `part` is fp32 memory for this
// rank's part of the group's sum.
absl::Status ReduceToOwner(const Work& work, const Tensor& part, const Tensor& sum) {
  const Tensor& grad = work.segment().grad;
  Communicator& shard = *work.groups.shard;
  if (shard.size() == 1) {
    return work.groups.replicate->ReduceScatter(grad, sum, ReduceOp::kSum, work.comm,
                                                work.unit.name());
  }
  ZEROTH_RETURN_IF_ERROR(
      shard.ReduceScatter(grad, part, ReduceOp::kSum, work.comm, work.unit.name()));
  return work.groups.replicate->ReduceScatter(part, sum, ReduceOp::kSum, work.comm,
                                              work.unit.name());
}

absl::Status ReduceToShard(const Work& work, const Tensor& sum) {
  ZEROTH_RETURN_IF_ERROR(work.groups.shard->ReduceScatter(work.segment().grad, sum, ReduceOp::kSum,
                                                          work.comm, work.unit.name()));
  Communicator* const across = work.groups.replicate;
  if (across == nullptr || across->size() == 1) return absl::OkStatus();
  return across->AllReduce(sum, ReduceOp::kSum, work.comm, work.unit.name());
}

// Widened first: what travels in fewer bits would be rounded once for every micro-batch.
absl::Status ReduceWhole(const Work& work, const Tensor& sum) {
  const Tensor& grad = work.segment().grad;
  if (grad.dtype() == DType::kFloat32) {
    ZEROTH_RETURN_IF_ERROR(
        work.unit.device().Copy(sum.raw_data(), grad.raw_data(), grad.bytes(), work.comm));
  } else {
    ZEROTH_RETURN_IF_ERROR(kernels::Cast(*work.scratch.kernels(), grad, sum));
  }
  if (work.groups.world->size() == 1) return absl::OkStatus();
  return work.groups.world->AllReduce(sum, ReduceOp::kSum, work.comm, work.unit.name());
}

// The micro-batch's sum over all ranks, this rank's shard of it.
absl::Status ReduceOverRanks(const Work& work, const Tensor& part, const Tensor& sum) {
  if (work.unit.is_whole(work.index)) return ReduceWhole(work, sum);
  return work.groups.scatters_across ? ReduceToOwner(work, part, sum) : ReduceToShard(work, sum);
}

// Elements of the group's sum that ReduceToOwner has to have a place for.
int64_t PartNumel(const Work& work) {
  const bool two_steps = !work.unit.is_whole(work.index) && work.groups.scatters_across &&
                         work.groups.shard->size() > 1;
  return two_steps ? work.segment().grad.numel() / work.groups.shard->size() : 0;
}

// sum of level - 1 += sum of level.
absl::Status AddLevel(const Work& work, int level) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor lower, Level(work, level - 1));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor upper, Level(work, level));
  return kernels::Add(*work.scratch.kernels(), lower, upper, lower);
}

// One more sum on top of the `done` that there are, and all additions that it makes possible.
absl::Status Climb(const Work& work, int64_t done) {
  int waiting = Ones(done);
  const int64_t part_numel = PartNumel(work);
  const bool waits = done % 2 == 0;
  const int64_t scratch_numel = part_numel + (waits ? 0 : work.shape().numel());
  Tensor memory;
  Tensor part;
  if (scratch_numel > 0) {
    ZEROTH_ASSIGN_OR_RETURN(memory, work.scratch.Take(scratch_numel, work.comm));
    part = memory.View(0, Shape({part_numel}));
  }
  if (waits) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, Level(work, waiting));
    return ReduceOverRanks(work, part, sum);
  }
  const Tensor sum = memory.View(part_numel, work.shape());
  ZEROTH_RETURN_IF_ERROR(ReduceOverRanks(work, part, sum));
  ZEROTH_ASSIGN_OR_RETURN(const Tensor equal, Level(work, waiting - 1));
  ZEROTH_RETURN_IF_ERROR(kernels::Add(*work.scratch.kernels(), equal, sum, equal));
  for (const int left = Ones(done + 1); waiting > left; --waiting) {
    ZEROTH_RETURN_IF_ERROR(AddLevel(work, waiting - 1));
  }
  return absl::OkStatus();
}

// What is left becomes one sum, smallest first, and that what the optimizer reads.
absl::Status Finish(const Work& work, int64_t count) {
  for (int waiting = Ones(count); waiting > 1; --waiting) {
    ZEROTH_RETURN_IF_ERROR(AddLevel(work, waiting - 1));
  }
  if (EndsInPlace(work.unit)) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Tensor sum, Level(work, 0));
  const Unit::Segment& segment = work.segment();
  if (!work.unit.offloads_gradients()) {
    return kernels::Cast(*work.scratch.kernels(), sum, segment.grad_shard);
  }
  const OffloadedTensor& store = segment.offloaded_grad_shard;
  if (store.dtype() == DType::kFloat32) return store.Write(0, sum, work.comm);
  // Nobody needs the full gradient any more.
  const Tensor rounded = segment.grad.View(0, work.shape());
  ZEROTH_RETURN_IF_ERROR(kernels::Cast(*work.scratch.kernels(), sum, rounded));
  return store.Write(0, rounded, work.comm);
}

}  // namespace

int TreeSumLevels(int64_t n) {
  ZEROTH_CHECK(n >= 1);
  // A new place is taken on top of an even count's ones; 2^k - 2 is the first count that has k - 1.
  return std::bit_width(static_cast<uint64_t>(n) + 1) - 1;
}

absl::Status ExpectPlaceInTree(const Unit& unit, int64_t micro_batches, GradientSync sync) {
  const int64_t number = unit.micro_batches_accumulated() + 1;
  const bool last = sync == GradientSync::kFinish;
  if (last == (number == micro_batches) && number <= micro_batches) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "unit '", unit.name(), "': micro-batch ", number, " of the step is ", last ? "" : "not ",
      "its last one, but gradients are summed in the tree of ", micro_batches,
      " micro-batches a rank (tree_micro_batches); expected steps of as many"));
}

absl::Status SumGradientsInTree(Unit& unit, const GradientGroups& groups, GradientSync sync,
                                FullBuffers& buffers, StreamScratch& scratch, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectGradientState(GradientState::kFull, "reduce gradients"));
  ZEROTH_CHECK(scratch.kernels() != nullptr);
  const int64_t done = unit.micro_batches_accumulated();
  for (int i = 0; i < unit.segment_count(); ++i) {
    const ShardLayout::Segment& layout = unit.segment_layout(i);
    if (!layout.trainable || layout.numel == 0) continue;
    const Work work{unit, i, groups, scratch, comm};
    ZEROTH_RETURN_IF_ERROR(ZeroGaps(unit, i, work.segment().grad, comm));
    ZEROTH_RETURN_IF_ERROR(Climb(work, done));
    if (sync == GradientSync::kFinish) ZEROTH_RETURN_IF_ERROR(Finish(work, done + 1));
  }
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> ended, comm.Record());
  ZEROTH_RETURN_IF_ERROR(sync == GradientSync::kFinish ? unit.MarkReduced(ended)
                                                       : unit.MarkAccumulated(ended));
  buffers.Release(unit, std::move(ended));
  return absl::OkStatus();
}

}  // namespace zeroth
