// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/unit_program.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace zeroth {
namespace {

// Returns this rank's slice.
Operand SliceOf(const Operand& whole, const Communicator& group) {
  const int64_t numel = whole.numel / group.size();
  return {whole.place, whole.dtype, group.rank() * numel, numel};
}

Operand FullOf(const Unit& unit, int segment) {
  return {OpPlace::kFull, unit.param_dtype(segment), 0, unit.segment_layout(segment).numel};
}

// Returns this rank's contribution to a gather of a segment: its shard, or `slice` of its
// param_dtype, after an operation that rounds or reads the shard into it.
Operand Contribution(const Unit& unit, int segment, const Operand& slice,
                     std::vector<UnitOp>& ops) {
  const Operand shard = {OpPlace::kShard, unit.master_dtype(segment), 0,
                         unit.segment_layout(segment).shard_numel};
  if (!unit.offloads_parameters() && shard.dtype == slice.dtype) return shard;
  const OpKind kind = unit.offloads_parameters() ? OpKind::kRead : OpKind::kCast;
  ops.push_back({.kind = kind, .segment = segment, .from = shard, .to = slice});
  return slice;
}

// Appends the stage of a gather that fills kGroupSlice or kFull of the sharded segments in a group,
// in which this rank contributes `slice`, or its shard if that is std::nullopt. Replicated segments
// get their shards in kFull.
void AppendGather(const Unit& unit, OpPlace place, OpGroup group, std::optional<OpPlace> slice,
                  std::vector<UnitOp>& ops) {
  const int ranks = group.ranks->size();
  std::vector<UnitOp> gathers;
  for (int i = 0; i < unit.segment_count(); ++i) {
    const Operand full = FullOf(unit, i);
    if (unit.is_full(i)) continue;
    if (unit.is_replicated(i)) {
      if (place == OpPlace::kFull) Contribution(unit, i, full, ops);
      continue;
    }
    const Operand whole =
        place == OpPlace::kFull
            ? full
            : Operand{place, full.dtype, 0, unit.segment_layout(i).shard_numel * ranks};
    const Operand mine = slice.has_value()
                             ? Operand{*slice, whole.dtype, 0, whole.numel / ranks}
                             : Contribution(unit, i, SliceOf(whole, *group.ranks), ops);
    if (ranks == 1) {
      ops.push_back({.kind = OpKind::kCopy, .segment = i, .from = mine, .to = whole});
    } else {
      gathers.push_back(
          {.kind = OpKind::kAllGather, .segment = i, .from = mine, .to = whole, .group = group});
    }
  }
  // All rounding precedes the collectives, so that these are issued as one call.
  ops.insert(ops.end(), gathers.begin(), gathers.end());
}

constexpr absl::string_view kPlaceNames[] = {"shard",         "full",     "group_slice",
                                             "forward_slice", "gradient", "gradient_shard",
                                             "sum",           "scratch",  "handover"};
constexpr absl::string_view kOpNames[] = {"zero_gaps",  "read",           "cast",       "copy",
                                          "all_gather", "reduce_scatter", "all_reduce", "scale",
                                          "add",        "write"};
constexpr absl::string_view kLaneNames[] = {"compute", "gather", "reduce", "across"};

std::string OperandText(const Operand& in, int segment, bool is_stored) {
  return absl::StrCat(is_stored ? "stored " : "", kPlaceNames[static_cast<size_t>(in.place)],
                      in.place == OpPlace::kSum ? absl::StrCat(in.level) : "", ".", segment, "[",
                      in.begin, ":", in.begin + in.numel, "] ", DTypeName(in.dtype));
}

std::string OpText(const UnitOp& op, const UnitProgram& program) {
  std::string line = absl::StrFormat("    %-7s %-14s ", kLaneNames[static_cast<size_t>(op.lane)],
                                     kOpNames[static_cast<size_t>(op.kind)]);
  const bool in_place =
      op.kind == OpKind::kZeroGaps || op.kind == OpKind::kScale || op.kind == OpKind::kAllReduce;
  if (!in_place) {
    absl::StrAppend(&line, OperandText(op.from, op.segment, op.kind == OpKind::kRead), " -> ");
  }
  absl::StrAppend(&line, OperandText(op.to, op.segment, op.kind == OpKind::kWrite));
  if (op.kind == OpKind::kScale) absl::StrAppend(&line, ", by ", program.scale);
  if (op.group.ranks == nullptr) return line;
  const bool reduces = op.kind != OpKind::kAllGather;
  absl::StrAppend(&line, ", ", op.group.name, " group of ", op.group.ranks->size());
  if (reduces) absl::StrAppend(&line, program.reduce_op == ReduceOp::kMean ? ", mean" : ", sum");
  if (op.accumulate) absl::StrAppend(&line, ", accumulates");
  return line;
}

void AppendProgram(absl::string_view title, const UnitProgram& program, std::string& text) {
  absl::StrAppend(&text, "  ", title, "\n");
  if (program.ops.empty()) absl::StrAppend(&text, "    nothing\n");
  for (const UnitOp& op : program.ops) absl::StrAppend(&text, OpText(op, program), "\n");
}

}  // namespace

bool UnitProgram::Uses(OpPlace place, LaneName lane) const {
  return std::any_of(ops.begin(), ops.end(), [&](const UnitOp& op) {
    return op.lane == lane && (op.from.place == place || op.to.place == place);
  });
}

bool UnitProgram::Uses(LaneName lane) const {
  return std::any_of(ops.begin(), ops.end(), [&](const UnitOp& op) { return op.lane == lane; });
}

int64_t UnitProgram::NumelOf(OpPlace place, int segment) const {
  int64_t numel = 0;
  for (const UnitOp& op : ops) {
    if (op.segment != segment) continue;
    for (const Operand& in : {op.from, op.to}) {
      if (in.place == place) numel = std::max(numel, in.begin + in.numel);
    }
  }
  return numel;
}

UnitProgram CompileGather(const Unit& unit, OpPlace from, const ProgramOptions& options) {
  UnitProgram program;
  const auto fill = [&](OpPlace place, OpGroup group, std::optional<OpPlace> slice) {
    AppendGather(unit, place, group, slice, program.ops);
  };
  const MeshView& mesh = unit.mesh();
  const OpGroup in_group = {"shard", &mesh.shard_gather()};
  if (from == OpPlace::kForwardSlice) {
    fill(OpPlace::kFull, {"post-forward", options.post_forward}, from);
  } else if (!mesh.owners_span_groups()) {
    fill(OpPlace::kFull, in_group, std::nullopt);
  } else {
    if (from == OpPlace::kShard) {
      fill(OpPlace::kGroupSlice, {"replicate", &mesh.replicate_gather()}, std::nullopt);
    }
    fill(OpPlace::kFull, in_group, OpPlace::kGroupSlice);
  }
  return program;
}

UnitProgram CompileKeepSlice(const Unit& unit, const ProgramOptions& options) {
  UnitProgram program;
  for (int i = 0; i < unit.segment_count(); ++i) {
    if (unit.is_replicated(i)) continue;
    const Operand mine = SliceOf(FullOf(unit, i), *options.post_forward);
    program.ops.push_back({.kind = OpKind::kCopy,
                           .segment = i,
                           .lane = LaneName::kCompute,
                           .from = mine,
                           .to = {OpPlace::kForwardSlice, mine.dtype, 0, mine.numel}});
  }
  return program;
}

std::string ProgramsText(const Unit& unit, const ProgramOptions& options) {
  std::string text;
  const auto append_gather = [&](absl::string_view title, OpPlace from) {
    AppendProgram(title, CompileGather(unit, from, options), text);
  };
  append_gather("gather", OpPlace::kShard);
  if (unit.mesh().owners_span_groups()) append_gather("gather again", OpPlace::kGroupSlice);
  if (options.post_forward != nullptr) {
    AppendProgram("reshard after forward", CompileKeepSlice(unit, options), text);
    append_gather("gather in backward", OpPlace::kForwardSlice);
  }
  if (!unit.has_trainable()) return text;
  const auto append = [&](absl::string_view title, const ReducePhase& phase) {
    AppendProgram(title, CompileReduce(unit, options, phase), text);
  };
  const int64_t in_tree = unit.sums_in_tree() ? unit.tree_micro_batches() : 0;
  for (int64_t i = 0; i < in_tree; ++i) {
    append(absl::StrCat("reduce micro-batch ", i + 1, " of ", in_tree),
           {Accumulation::kReduced, i, i + 1 == in_tree});
  }
  if (in_tree > 0) return text;
  append("reduce the only micro-batch", {Accumulation::kSingle, 0, true});
  append("reduce full gradients of several micro-batches", {Accumulation::kFull, 0, true});
  if (options.accumulates_in_full) return text;
  append("reduce the first micro-batch", {Accumulation::kReduced, 0, false});
  append("reduce the next micro-batch", {Accumulation::kReduced, 1, false});
  append("reduce the last micro-batch", {Accumulation::kReduced, 1, true});
  return text;
}

}  // namespace zeroth
