// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/program_runner.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/elementwise/elementwise.h"

namespace zeroth {
namespace {

constexpr int64_t kFp32Bytes = 4;

absl::Status ExpectKernels(const Unit& unit, const Kernels* kernels, absl::string_view what) {
  if (kernels != nullptr) return absl::OkStatus();
  return FailedPrecondition("unit '", unit.name(), "': ", what,
                            " needs kernels, and none were given; pass on those of "
                            "StrategyContext");
}

// Memory of kGroupSlice and kForwardSlice.
struct Slices {
  std::vector<Tensor> of_segment;
  std::shared_ptr<Event> last_use;  // nullptr: no slices exist
};
using UnitSlices = std::map<OpPlace, Slices>;

Slices& SlicesOf(Unit& unit, OpPlace place) { return unit.strategy_state<UnitSlices>()[place]; }

constexpr OpPlace kSlices[] = {OpPlace::kGroupSlice, OpPlace::kForwardSlice};

absl::Status AllocateSlices(const Unit& unit, const UnitProgram& program, OpPlace place,
                            Stream& writer, std::vector<Tensor>& slices) {
  std::vector<PackedTensor> tensors;
  for (int i = 0; i < unit.segment_count(); ++i) {
    tensors.push_back({program.NumelOf(place, i), unit.param_dtype(i)});
  }
  ZEROTH_ASSIGN_OR_RETURN(const Tensor memory,
                          Allocate(unit.device(), PackedBytes(tensors), DType::kUInt8,
                                   MemoryCategory::kGatheredParameters, writer));
  slices = PackedIn(memory, tensors);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> AllocateSum(const Unit& unit, int64_t numel, Stream& writer) {
  return Allocate(unit.device(), numel, DType::kFloat32, MemoryCategory::kGradients, writer);
}

// Returns the bytes of the largest fp32 sum that a group hands over to be reduced across groups.
int64_t HandoverBytes(absl::Span<Unit* const> units) {
  int64_t numel = 0;
  for (const Unit* unit : units) {
    if (unit->mesh().replicate_size() == 1) continue;
    for (int i = 0; i < unit->segment_count(); ++i) {
      numel = std::max(numel, unit->segment_layout(i).numel / unit->mesh().shard_size());
    }
  }
  return numel * kFp32Bytes;
}

// Gives the gradient shards the types of this reduction: fp32 while they accumulate micro-batches.
absl::Status WidenGradientShards(Unit& unit, bool is_last, Stream& writer) {
  const bool adds_up = unit.has_accumulated() || !is_last;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (!unit.segment_layout(i).trainable) continue;
    const DType dtype = unit.gradient_shard_dtype(i, unit.accumulation(), adds_up);
    StateTensor& shard = unit.segment(i).grad_shard;
    if (shard.is_offloaded()) {
      shard = shard.As(dtype);
    } else if (shard.dtype() != dtype) {
      ZEROTH_CHECK(dtype == DType::kFloat32);
      shard = StateTensor();  // freed first, so that never both exist
      ZEROTH_ASSIGN_OR_RETURN(shard, AllocateSum(unit, unit.segment_layout(i).shard_numel, writer));
    }
  }
  return absl::OkStatus();
}

// True if the two collectives can be issued as one call.
bool IsOneCall(const UnitOp& a, const UnitOp& b) {
  const bool is_batched = a.kind == OpKind::kAllGather ||
                          (a.kind == OpKind::kReduceScatter && a.lane == LaneName::kReduce);
  return is_batched && a.kind == b.kind && a.lane == b.lane && a.group.ranks == b.group.ranks;
}

}  // namespace

// One run of a program.
class ProgramRunner::Execution {
 public:
  Execution(ProgramRunner& runner, Unit& unit, const UnitProgram& program)
      : runner_(runner), unit_(unit), program_(program) {}

  // Enqueues all operations. On return no handover is in use, even after an error.
  absl::Status Run() {
    const absl::Status status = RunOps();
    if (handover_.defined()) {
      runner_.handover_.Release(std::move(handover_), AfterBothReductions());
    }
    return status;
  }

 private:
  absl::Status RunOps() {
    const std::vector<UnitOp>& ops = program_.ops;
    for (size_t i = 0; i < ops.size();) {
      size_t end = i + 1;
      while (end < ops.size() && IsOneCall(ops[i], ops[end])) ++end;
      ZEROTH_RETURN_IF_ERROR(EnterLaneOf(ops[i]));
      ZEROTH_RETURN_IF_ERROR(ops[i].group.ranks == nullptr
                                 ? RunOp(ops[i])
                                 : RunCollectives(absl::MakeSpan(ops).subspan(i, end - i)));
      i = end;
    }
    return LeaveAcross();
  }

  // The stream across groups waits for the segment's operations on the other stream.
  absl::Status EnterLaneOf(const UnitOp& op) {
    const bool is_across = op.lane == LaneName::kAcross;
    if (across_segment_ == (is_across ? op.segment : -1)) return absl::OkStatus();
    ZEROTH_RETURN_IF_ERROR(LeaveAcross());
    if (!is_across) return absl::OkStatus();
    Stream& across = *runner_.lane(LaneName::kAcross).stream;
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> made,
                            runner_.lane(LaneName::kReduce).stream->Record());
    ZEROTH_RETURN_IF_ERROR(across.Wait(made));
    across_segment_ = op.segment;
    Timeline* const timeline = runner_.context_.timeline;
    return timeline == nullptr ? absl::OkStatus() : timeline->Begin(across, AcrossLabel());
  }
  absl::Status LeaveAcross() {
    if (std::exchange(across_segment_, -1) < 0) return absl::OkStatus();
    Stream& across = *runner_.lane(LaneName::kAcross).stream;
    Timeline* const timeline = runner_.context_.timeline;
    if (timeline != nullptr) ZEROTH_RETURN_IF_ERROR(timeline->End(across, AcrossLabel()));
    if (!handover_.defined()) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> used, across.Record());
    runner_.handover_.Release(std::move(handover_), std::move(used));
    return absl::OkStatus();
  }
  std::string AcrossLabel() const { return absl::StrCat("reduce across ", unit_.name()); }

  // Returns an event after which neither the reduce nor the across stream uses the handover buffer.
  // nullptr if both streams have failed, since a failed stream runs no more work.
  std::shared_ptr<Event> AfterBothReductions() {
    Stream& across = *runner_.lane(LaneName::kAcross).stream;
    const absl::StatusOr<std::shared_ptr<Event>> made =
        runner_.lane(LaneName::kReduce).stream->Record();
    if (made.ok()) across.Wait(*made).IgnoreError();
    const absl::StatusOr<std::shared_ptr<Event>> used = across.Record();
    if (used.ok()) return *used;
    return made.ok() ? *made : nullptr;
  }

  // Returns the memory of an operand, which is allocated if it does not exist yet.
  absl::StatusOr<Tensor> Find(const UnitOp& op, const Operand& in) {
    ZEROTH_ASSIGN_OR_RETURN(const Tensor place, FindPlace(op, in));
    ZEROTH_CHECK(place.defined() && place.dtype() == in.dtype);
    return place.View(in.begin, Shape({in.numel}));
  }
  absl::StatusOr<Tensor> FindPlace(const UnitOp& op, const Operand& in) {
    Unit::Segment& segment = unit_.segment(op.segment);
    Lane& lane = runner_.lane(op.lane);
    switch (in.place) {
      case OpPlace::kShard:
      case OpPlace::kGradientShard:
        return StateOf(op, in.place).tensor();
      case OpPlace::kFull:
        return segment.full;
      case OpPlace::kGroupSlice:
      case OpPlace::kForwardSlice:
        return SlicesOf(unit_, in.place).of_segment[static_cast<size_t>(op.segment)];
      case OpPlace::kGradient:
        return segment.grad;
      case OpPlace::kScratch:
        return lane.scratch.Take(in.begin + in.numel, *lane.stream);
      case OpPlace::kHandover:
        break;
      case OpPlace::kSum: {
        const auto level = static_cast<size_t>(in.level);
        if (segment.waiting_sums.size() <= level) segment.waiting_sums.resize(level + 1);
        Tensor& sum = segment.waiting_sums[level];
        if (!sum.defined()) {
          ZEROTH_ASSIGN_OR_RETURN(sum, AllocateSum(unit_, in.numel, *lane.stream));
        }
        return sum;
      }
    }
    if (!handover_.defined()) {
      ZEROTH_ASSIGN_OR_RETURN(handover_,
                              runner_.handover_.Acquire(in.numel * kFp32Bytes, *lane.stream));
    }
    return handover_.ViewAs(0, Shape({in.begin + in.numel}), DType::kFloat32);
  }

  const StateTensor& StateOf(const UnitOp& op, OpPlace place) {
    const Unit::Segment& segment = unit_.segment(op.segment);
    return place == OpPlace::kShard ? segment.shard : segment.grad_shard;
  }

  absl::Status RunOp(const UnitOp& op) {
    Lane& lane = runner_.lane(op.lane);
    if (op.kind == OpKind::kRead) return Read(op, lane);
    if (op.kind == OpKind::kWrite) {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor from, Find(op, op.from));
      return StateOf(op, op.to.place).Write(op.to.begin, from, *lane.stream);
    }
    ZEROTH_ASSIGN_OR_RETURN(const Tensor from, Find(op, op.from));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor to, Find(op, op.to));
    if (op.kind == OpKind::kZeroGaps) return ZeroGaps(unit_, op.segment, to, *lane.stream);
    if (op.kind == OpKind::kCopy) {
      return unit_.device().Copy(to.raw_data(), from.raw_data(), to.bytes(), *lane.stream);
    }
    ZEROTH_RETURN_IF_ERROR(ExpectKernels(unit_, lane.kernels, "a reduction in several steps"));
    if (op.kind == OpKind::kCast) return kernels::Cast(*lane.kernels, from, to);
    if (op.kind == OpKind::kAdd) return kernels::Add(*lane.kernels, to, from, to);
    ZEROTH_CHECK(op.kind == OpKind::kScale);
    return kernels::Scale(*lane.kernels, to, static_cast<float>(program_.scale));
  }

  // Reads offloaded state. State to be rounded passes through scratch, chunk by chunk.
  absl::Status Read(const UnitOp& op, Lane& lane) {
    const StateTensor& store = StateOf(op, op.from.place);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor to, Find(op, op.to));
    if (op.from.dtype == op.to.dtype) return store.Read(op.from.begin, to, *lane.stream);
    const int64_t chunk = std::min(unit_.offload_chunk_numel(), op.from.numel);
    for (int64_t begin = 0; begin < op.from.numel; begin += chunk) {
      const int64_t numel = std::min(chunk, op.from.numel - begin);
      ZEROTH_ASSIGN_OR_RETURN(const Tensor values, lane.scratch.Take(numel, *lane.stream));
      ZEROTH_RETURN_IF_ERROR(store.Read(op.from.begin + begin, values, *lane.stream));
      ZEROTH_RETURN_IF_ERROR(kernels::Cast(*lane.kernels, values, to.View(begin, Shape({numel}))));
    }
    return absl::OkStatus();
  }

  // Issues collectives of one kind, lane and group: as one call, unless the unit has custom
  // collectives. Segments of bytes never use custom ones.
  absl::Status RunCollectives(absl::Span<const UnitOp> ops) {
    const UnitOp& first = ops.front();
    Lane& lane = runner_.lane(first.lane);
    Communicator& group = *first.group.ranks;
    // The slices that forward kept are results of the custom collectives: gather them unchanged.
    UnitCollectives* const custom =
        first.from.place == OpPlace::kForwardSlice ? nullptr : unit_.custom_collectives();
    if (custom != nullptr) {
      ZEROTH_RETURN_IF_ERROR(ExpectKernels(unit_, lane.kernels, "a custom collective"));
    }
    const CollectiveContext context{group, *lane.stream, lane.kernels, &lane.collective_scratch,
                                    unit_.name()};
    std::vector<GatherBuffers> gathers;
    std::vector<ReductionBuffers> reductions;
    for (const UnitOp& op : ops) {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor from, Find(op, op.from));
      ZEROTH_ASSIGN_OR_RETURN(const Tensor to, Find(op, op.to));
      if (op.kind == OpKind::kAllReduce) {
        ZEROTH_RETURN_IF_ERROR(
            custom != nullptr
                ? custom->AllReduce(to, program_.reduce_op, context)
                : group.AllReduce(to, program_.reduce_op, *lane.stream, unit_.name()));
      } else if (op.kind == OpKind::kAllGather && custom != nullptr &&
                 !unit_.keeps_bits(op.segment)) {
        ZEROTH_RETURN_IF_ERROR(custom->AllGather(from, to, context));
      } else if (op.kind == OpKind::kAllGather) {
        gathers.push_back({from, to});
      } else if (custom != nullptr) {
        ZEROTH_RETURN_IF_ERROR(
            custom->ReduceScatter(from, to, program_.reduce_op, op.accumulate, context));
      } else {
        reductions.push_back({from, to, op.accumulate});
      }
    }
    if (!gathers.empty()) return group.AllGatherAll(gathers, *lane.stream, unit_.name());
    if (reductions.empty()) return absl::OkStatus();
    return group.ReduceScatterAll(reductions, program_.reduce_op, *lane.stream, unit_.name());
  }

  ProgramRunner& runner_;
  Unit& unit_;
  const UnitProgram& program_;
  int across_segment_ = -1;  // whose operations run on the lane across groups; -1: none
  Tensor handover_;          // while one is in use
};

ProgramRunner::ProgramRunner(const StrategyContext& context)
    : context_(context),
      handover_(*context.device, MemoryCategory::kCommunication, {HandoverBytes(context.units)},
                /*limit=*/2) {
  const auto add = [&](Stream* stream, Kernels* kernels, MemoryCategory scratch) {
    lanes_.push_back({stream,
                      kernels,
                      {*context.device, scratch},
                      {*context.device, MemoryCategory::kCommunication}});
  };
  // In the order of LaneName. Gather and Reduce are told their streams.
  add(&context.device->compute_stream(), nullptr, MemoryCategory::kCommunication);
  add(nullptr, context.gather_kernels, MemoryCategory::kOffloadStaging);
  add(nullptr, context.reduce_kernels, MemoryCategory::kCommunication);
  add(context.across_stream, context.across_kernels, MemoryCategory::kCommunication);
}

absl::Status ProgramRunner::Gather(Unit& unit, const UnitProgram& program, Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kSharded, "gather"));
  if (!unit.precision().computes_in_masters()) {
    ZEROTH_RETURN_IF_ERROR(ExpectKernels(unit, context_.gather_kernels, "a gather"));
  }
  lane(LaneName::kGather).stream = &comm;
  Slices* used = nullptr;
  for (const OpPlace place : kSlices) {
    if (!program.Uses(place, LaneName::kGather)) continue;
    used = &SlicesOf(unit, place);
    if (used->last_use != nullptr) {
      ZEROTH_RETURN_IF_ERROR(comm.Wait(used->last_use));
    } else {
      ZEROTH_RETURN_IF_ERROR(AllocateSlices(unit, program, place, comm, used->of_segment));
    }
  }
  ZEROTH_RETURN_IF_ERROR(AcquireFullParameters(unit, *context_.gathered, comm));
  ZEROTH_RETURN_IF_ERROR(Execution(*this, unit, program).Run());
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done,
                          program.ops.empty() ? std::shared_ptr<Event>() : comm.Record());
  if (used != nullptr) used->last_use = done;
  return unit.BeginGather(std::move(done));
}

absl::Status ProgramRunner::KeepSlice(Unit& unit, const UnitProgram& program) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectState(UnitState::kGathered, "keep a slice of it"));
  Stream& compute = context_.device->compute_stream();
  Slices& slices = SlicesOf(unit, OpPlace::kForwardSlice);
  ZEROTH_RETURN_IF_ERROR(
      AllocateSlices(unit, program, OpPlace::kForwardSlice, compute, slices.of_segment));
  ZEROTH_RETURN_IF_ERROR(Execution(*this, unit, program).Run());
  ZEROTH_ASSIGN_OR_RETURN(slices.last_use, compute.Record());
  return absl::OkStatus();
}

bool ProgramRunner::HasSlice(Unit& unit, OpPlace place) {
  return SlicesOf(unit, place).last_use != nullptr;
}

absl::Status ProgramRunner::DropSlice(Unit& unit, OpPlace place) {
  Slices& slices = SlicesOf(unit, place);
  if (slices.last_use == nullptr) return absl::OkStatus();
  const absl::Status status = context_.device->compute_stream().Wait(slices.last_use);
  if (status.ok() || slices.last_use->IsDone()) slices = Slices();
  return status;
}

absl::Status ProgramRunner::Reduce(Unit& unit, const UnitProgram& program, bool is_last,
                                   Stream& comm) {
  ZEROTH_RETURN_IF_ERROR(unit.ExpectGradientState(GradientState::kFull, "reduce gradients"));
  lane(LaneName::kReduce).stream = &comm;
  // The sums of earlier micro-batches may have been made on the stream across groups.
  if (unit.has_accumulated()) ZEROTH_RETURN_IF_ERROR(comm.Wait(unit.reduce_event()));
  ZEROTH_RETURN_IF_ERROR(WidenGradientShards(unit, is_last, comm));
  ZEROTH_RETURN_IF_ERROR(Execution(*this, unit, program).Run());
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<Event> done, comm.Record());
  std::shared_ptr<Event> full_is_read = done;
  if (program.Uses(LaneName::kAcross)) {
    ZEROTH_RETURN_IF_ERROR(context_.across_stream->Wait(done));
    ZEROTH_ASSIGN_OR_RETURN(done, context_.across_stream->Record());
    if (program.Uses(OpPlace::kGradient, LaneName::kAcross)) full_is_read = done;
  }
  ZEROTH_RETURN_IF_ERROR(is_last ? unit.MarkReduced(done) : unit.MarkAccumulated(done));
  context_.gradients->Release(unit, std::move(full_is_read));
  return absl::OkStatus();
}

absl::Status ProgramRunner::Trim() {
  absl::Status status;
  for (Lane& in : lanes_) {
    status.Update(in.scratch.Trim());
    status.Update(in.collective_scratch.Trim());
  }
  status.Update(handover_.Trim());
  for (Unit* unit : context_.units) {
    for (const OpPlace place : kSlices) status.Update(DropSlice(*unit, place));
  }
  return status;
}

}  // namespace zeroth
