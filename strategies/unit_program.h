// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A unit's gather and its gradient reduction as lists of operations: compiled once from the unit
// and the options, then executed by ProgramRunner (program_runner.h).

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Memory that an operation reads or writes. Each segment of the unit has its own, see
// Unit::Segment.
enum class OpPlace : uint8_t {
  kShard,          // this rank's masters, in memory or in the offload store
  kFull,           // the full parameters
  kGroupSlice,     // this rank's slice of the full parameters, gathered across groups once a step
  kForwardSlice,   // its slice inside the post-forward group, kept from forward to backward
  kGradient,       // the full gradients
  kGradientShard,  // what the optimizer reads, in memory or in the offload store
  kSum,            // an fp32 sum that waits for later micro-batches (Unit::Segment::waiting_sums)
  kScratch,        // fp32 memory of the lane, until the lane's next segment
  kHandover,       // fp32 memory that one lane writes, and the lane across groups then reads
};

enum class OpKind : uint8_t {
  kZeroGaps,  // zeroes the gaps between parameters in `to`
  kRead,      // from the offload store; rounds if the types differ
  kCast,
  kCopy,
  kAllGather,
  kReduceScatter,
  kAllReduce,  // in place
  kScale,      // to *= UnitProgram::scale
  kAdd,        // to += from
  kWrite,      // to the offload store
};

// The stream that an operation is enqueued on.
enum class LaneName : uint8_t { kCompute, kGather, kReduce, kAcross };

// The ranks of a collective.
struct OpGroup {
  absl::string_view name = {};    // for ProgramsText
  Communicator* ranks = nullptr;  // nullptr: the operation is no collective
};

// Elements [begin, begin + numel) of a place.
struct Operand {
  OpPlace place = OpPlace::kShard;
  DType dtype = DType::kFloat32;
  int64_t begin = 0;
  int64_t numel = 0;
  int level = 0;  // of kSum

  friend bool operator==(const Operand&, const Operand&) = default;
};

struct UnitOp {
  OpKind kind = OpKind::kCopy;
  int segment = 0;
  LaneName lane = LaneName::kGather;
  Operand from = {};
  Operand to = {};
  OpGroup group = {};
  bool accumulate = false;  // the reduce-scatter adds to `to`
};

struct UnitProgram {
  std::vector<UnitOp> ops;
  // For reductions:
  ReduceOp reduce_op = ReduceOp::kMean;
  double scale = 1;

  // True if an operation of this lane reads or writes the place.
  bool Uses(OpPlace place, LaneName lane) const;
  bool Uses(LaneName lane) const;
  // Returns the end of the elements of a place that the program reads or writes; 0 if none.
  int64_t NumelOf(OpPlace place, int segment) const;
};

// The inputs of a strategy's programs besides the unit.
struct ProgramOptions {
  ReduceOp reduce_op = ReduceOp::kMean;
  // Multiplies the complete sum; for a gradient divide factor other than the number of ranks.
  double scale = 1;
  // True if reductions across groups run on a separate stream.
  bool has_across_lane = false;
  // Gradients of several micro-batches always accumulate in full.
  bool accumulates_in_full = false;
  // The unit's group of StrategyOptions::post_forward_shard_size; nullptr: there is none.
  Communicator* post_forward = nullptr;
};

// The micro-batch of a step whose gradients are reduced.
struct ReducePhase {
  Accumulation how = Accumulation::kSingle;  // Unit::accumulation
  int64_t earlier = 0;  // Unit::micro_batches_accumulated; at most 1 without a tree
  bool is_last = true;

  friend auto operator<=>(const ReducePhase&, const ReducePhase&) = default;
};

// Compiles the gather of the full parameters: rounds this rank's shard into its slice of the full
// buffer, and all-gathers there in place. If owners span groups, an all-gather across groups fills
// kGroupSlice first, and one inside the group then fills the full buffer. `from` is where the
// gather begins: kShard, or the slice that an earlier gather of the step has kept (kGroupSlice,
// kForwardSlice).
UnitProgram CompileGather(const Unit& unit, OpPlace from, const ProgramOptions& options);
// Compiles the copy of kForwardSlice out of a gathered unit.
UnitProgram CompileKeepSlice(const Unit& unit, const ProgramOptions& options);

// Reduces the full gradients of every trainable segment to what the optimizer reads: reduce inside
// the group → reduce across groups → scale → add to the sums of earlier micro-batches → round once
// → store. A segment skips the steps that it does not need. Sharded segments are reduce-scattered
// inside the shard group, and then all-reduced across groups, or reduce-scattered if owners span
// groups. Replicated segments are all-reduced over all ranks. Every step after the first is fp32
// unless it is the last one, so that a sum in 16 bits is rounded once.
//
// Without a tree over micro-batches, the reduction inside the group adds to the fp32 shards of
// earlier micro-batches (in memory if owners span groups, even if gradients are offloaded), and
// only the last micro-batch runs the other steps. Only the last one reduces replicated segments.
//
// Units with tree_micro_batches() above 1 run all steps for each micro-batch. The sum over a step's
// M leaves, leaf j * W + r being micro-batch j of rank r of W, is one binary tree: its left half
// has 2^k leaves, the largest power of two below M, and so on in each half, as communicator.h sums
// over ranks. If W is a power of two that divides M, the W leaves of a micro-batch are a subtree,
// and what remains is the same tree over n = M / W sums: the bits do not depend on W. They are
// added as in a binary counter: two sums of equally many leaves are merged at once, so that one of
// each size waits (pairwise summation, Higham, 1993). Waiting sums are fp32, and are rounded at the
// end.
UnitProgram CompileReduce(const Unit& unit, const ProgramOptions& options,
                          const ReducePhase& phase);

// Returns all programs of a unit as text, one operation per line.
std::string ProgramsText(const Unit& unit, const ProgramOptions& options);

}  // namespace zeroth
