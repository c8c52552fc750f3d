// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "zeroth/strategies/unit_program.h"

namespace zeroth {
namespace {

// Returns the number of sums that wait after `count` micro-batches, see CompileReduce.
int WaitingSums(int64_t count) { return std::popcount(static_cast<uint64_t>(count)); }

// Compiles one segment's reduction. `value_` is the current place of its gradients, or of their
// sum.
class SegmentCompiler {
 public:
  SegmentCompiler(const Unit& unit, int segment, const ProgramOptions& options,
                  const ReducePhase& phase)
      : unit_(unit),
        segment_(segment),
        options_(options),
        phase_(phase),
        is_replicated_(unit.is_replicated(segment)),
        in_tree_(unit.sums_in_tree()),
        is_scaled_(options.scale != 1 && phase.is_last),
        full_{OpPlace::kGradient, unit.full_gradient_dtype(segment, phase.how), 0,
              unit.segment_layout(segment).numel},
        value_(full_) {}

  std::vector<UnitOp> Compile() {
    if (full_.numel == 0) return {};
    ChooseDestination();
    SumOverRanks();
    if (in_tree_) AddToTree();
    if (in_tree_ ? phase_.is_last : !WaitsForOtherGroups()) Store();
    return std::move(ops_);
  }

 private:
  struct Collective {
    OpGroup group;
    bool scatters;
    bool is_across;
  };

  // True if this micro-batch is reduced over all ranks. Without a tree that is only the last one,
  // together with the sum of those before it.
  bool IsOverAllRanks() const { return phase_.is_last || in_tree_; }
  // True if only the last micro-batch crosses groups, with the sum of all.
  bool WaitsForOtherGroups() const {
    return !IsOverAllRanks() && !is_replicated_ && unit_.mesh().owners_span_groups();
  }
  // True if the next collective runs on the lane across groups.
  bool HandsOver() const {
    return lane_ == LaneName::kReduce && options_.has_across_lane && !is_replicated_ &&
           IsOverAllRanks() && unit_.mesh().replicate_size() > 1;
  }
  Operand Shard() const {
    const bool adds_up = phase_.earlier > 0 || !phase_.is_last;
    return {OpPlace::kGradientShard, unit_.gradient_shard_dtype(segment_, phase_.how, adds_up), 0,
            unit_.segment_layout(segment_).shard_numel};
  }
  // Returns waiting sum number `level`. Number 0 is the shard that the optimizer reads, if that is
  // fp32 and in memory.
  Operand Level(int level) const {
    const Operand shard = Shard();
    if (level == 0 && !unit_.offloads_gradients() && shard.dtype == DType::kFloat32) return shard;
    return {OpPlace::kSum, DType::kFloat32, 0, shard.numel, level};
  }
  // Returns the sum of the step's earlier micro-batches if owners span groups.
  Operand GroupSum() const {
    return {OpPlace::kSum, DType::kFloat32, 0, full_.numel / unit_.mesh().shard_size(), 0};
  }

  // Returns the reduction's collectives, without those in groups of one rank.
  std::vector<Collective> Collectives() const {
    std::vector<Collective> collectives;
    const auto add = [&](OpGroup group, bool scatters, bool is_across) {
      if (group.ranks->size() > 1) collectives.push_back({group, scatters, is_across});
    };
    const MeshView& mesh = unit_.mesh();
    if (!is_replicated_) add({"shard", &mesh.shard_reduce()}, true, false);
    if (!IsOverAllRanks()) return collectives;
    if (is_replicated_) {
      add({"data", &mesh.data_reduce()}, false, false);
    } else {
      add({"replicate", &mesh.replicate_reduce()}, mesh.owners_span_groups(), true);
    }
    return collectives;
  }

  void Add(OpKind kind, const Operand& from, const Operand& to) {
    ops_.push_back({.kind = kind, .segment = segment_, .lane = lane_, .from = from, .to = to});
  }
  // Copies or rounds the value to `target`; does nothing if it is there already.
  void MoveTo(const Operand& target) {
    const bool is_there = value_ == target ||
                          (unit_.is_full_gradient(segment_) && value_.place == OpPlace::kGradient &&
                           target.place == OpPlace::kGradientShard);
    if (!is_there)
      Add(value_.dtype == target.dtype ? OpKind::kCopy : OpKind::kCast, value_, target);
    value_ = target;
  }

  // Chooses the destination and the type of the sum over ranks.
  void ChooseDestination() {
    if (in_tree_) {
      destination_.numel = 0;
      if (phase_.earlier % 2 == 0) destination_ = Level(WaitingSums(phase_.earlier));
    } else if (WaitsForOtherGroups()) {
      destination_ = GroupSum();
    } else {
      destination_ = Shard();
      destination_dtype_ = destination_.dtype;
      if (unit_.offloads_gradients()) destination_.numel = 0;  // not in memory
    }
  }
  bool DestinationIs(int64_t numel, DType dtype) const {
    return destination_.numel == numel && destination_.dtype == dtype;
  }
  Operand Scratch(int64_t numel) const {
    return {HandsOver() ? OpPlace::kHandover : OpPlace::kScratch, DType::kFloat32, 0, numel};
  }
  void Widen() {
    if (value_.dtype == DType::kFloat32) return;
    MoveTo(DestinationIs(value_.numel, DType::kFloat32) ? destination_ : Scratch(value_.numel));
  }
  // Returns the sum of the step's earlier micro-batches, to which the reduce-scatter adds.
  Operand Earlier() {
    if (unit_.mesh().owners_span_groups()) return GroupSum();
    if (!unit_.offloads_gradients()) return Shard();
    const Operand sum = Scratch(Shard().numel);
    Add(OpKind::kRead, Shard(), sum);
    return sum;
  }

  void SumOverRanks() {
    const std::vector<Collective> collectives = Collectives();
    for (size_t i = 0; i < collectives.size(); ++i) {
      const Collective& in = collectives[i];
      const bool is_end = i + 1 == collectives.size() && !is_scaled_;
      const DType dtype =
          is_end && value_.dtype != DType::kFloat32 ? destination_dtype_ : DType::kFloat32;
      const bool accumulates =
          i == 0 && in.scatters && phase_.earlier > 0 && !in_tree_ && !is_replicated_;
      const Operand earlier = accumulates ? Earlier() : Operand();
      if (in.is_across && HandsOver()) lane_ = LaneName::kAcross;
      if (!in.scatters && dtype == DType::kFloat32) Widen();
      const Operand from = value_;
      if (accumulates) {
        value_ = earlier;
      } else if (in.scatters) {
        const int64_t numel = from.numel / in.group.ranks->size();
        if (DestinationIs(numel, dtype)) {
          value_ = destination_;
        } else if (from.dtype == dtype) {
          value_ = {from.place, from.dtype, from.begin + in.group.ranks->rank() * numel, numel,
                    from.level};
        } else {
          value_ = Scratch(numel);
        }
      }
      ops_.push_back({.kind = in.scatters ? OpKind::kReduceScatter : OpKind::kAllReduce,
                      .segment = segment_,
                      .lane = lane_,
                      .from = from,
                      .to = value_,
                      .group = in.group,
                      .accumulate = accumulates});
    }
    if (is_scaled_ || destination_dtype_ == DType::kFloat32) Widen();
    if (is_scaled_) Add(OpKind::kScale, value_, value_);
  }

  // Adds the sum over ranks to the waiting ones, as in a binary counter.
  void AddToTree() {
    int waiting = WaitingSums(phase_.earlier);
    if (phase_.earlier % 2 == 0) {
      MoveTo(destination_);
      ++waiting;
    } else {
      Add(OpKind::kAdd, value_, Level(waiting - 1));
    }
    // At the step's end all waiting sums are merged, from the smallest on.
    const int left = phase_.is_last ? 1 : WaitingSums(phase_.earlier + 1);
    for (; waiting > left; --waiting) Add(OpKind::kAdd, Level(waiting - 1), Level(waiting - 2));
    value_ = Level(0);
  }

  // Rounds the sum, and stores it where the optimizer reads it.
  void Store() {
    const Operand shard = Shard();
    if (!unit_.offloads_gradients()) return MoveTo(shard);
    // The full gradient's memory is free by now.
    if (value_.dtype != shard.dtype) MoveTo({OpPlace::kGradient, shard.dtype, 0, shard.numel});
    Add(OpKind::kWrite, value_, shard);
  }

  const Unit& unit_;
  const int segment_;
  const ProgramOptions& options_;
  const ReducePhase& phase_;
  const bool is_replicated_;
  const bool in_tree_;
  const bool is_scaled_;  // after the last collective
  LaneName lane_ = LaneName::kReduce;
  const Operand full_;
  Operand value_;
  // The destination of the sum over ranks if its size and type match, and the narrowest type that
  // the last collective may write.
  Operand destination_;
  DType destination_dtype_ = DType::kFloat32;
  std::vector<UnitOp> ops_;
};

// True if the operation can be issued together with those of the unit's other segments.
bool IsFirstScatter(const UnitOp& op) {
  return op.kind == OpKind::kReduceScatter && op.lane == LaneName::kReduce &&
         op.to.place != OpPlace::kScratch && op.to.place != OpPlace::kHandover;
}

}  // namespace

UnitProgram CompileReduce(const Unit& unit, const ProgramOptions& options,
                          const ReducePhase& phase) {
  UnitProgram program;
  program.reduce_op = options.reduce_op;
  program.scale = options.scale;
  std::vector<UnitOp> scatters;
  std::vector<UnitOp> rest;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (!unit.segment_layout(i).trainable) continue;
    const std::vector<UnitOp> ops = SegmentCompiler(unit, i, options, phase).Compile();
    if (!unit.layout().Gaps(i).empty()) {
      const Operand full = {OpPlace::kGradient, unit.full_gradient_dtype(i, phase.how), 0,
                            unit.segment_layout(i).numel};
      program.ops.push_back({.kind = OpKind::kZeroGaps,
                             .segment = i,
                             .lane = LaneName::kReduce,
                             .from = full,
                             .to = full});
    }
    const bool scatters_first = !ops.empty() && IsFirstScatter(ops[0]);
    if (scatters_first) scatters.push_back(ops[0]);
    rest.insert(rest.end(), ops.begin() + (scatters_first ? 1 : 0), ops.end());
  }
  program.ops.insert(program.ops.end(), scatters.begin(), scatters.end());
  program.ops.insert(program.ops.end(), rest.begin(), rest.end());
  return program;
}

}  // namespace zeroth
