// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Executes unit programs (unit_program.h): allocates buffers, orders streams, issues collectives
// and updates the unit's state.

#pragma once

#include <vector>

#include "absl/status/status.h"

#include "zeroth/strategies/buffer_set.h"
#include "zeroth/strategies/strategy.h"
#include "zeroth/strategies/unit_program.h"

namespace zeroth {

// A stream, with the kernels and scratch of its operations.
struct Lane {
  Stream* stream = nullptr;
  Kernels* kernels = nullptr;        // on that stream; nullptr if nothing is rounded
  StreamScratch scratch;             // kScratch, and staging of offloaded state
  StreamScratch collective_scratch;  // for UnitSpec::collectives
};

// Used by one rank's thread only. After an error the step must be abandoned, see Scheduler.
class ProgramRunner {
 public:
  explicit ProgramRunner(const StrategyContext& context);

  // Runs a gather on `comm`: kSharded → kGathering. FailedPrecondition if the unit's program
  // rounds, or the unit has custom collectives, and StrategyContext has no kernels.
  absl::Status Gather(Unit& unit, const UnitProgram& program, Stream& comm);
  // Runs CompileKeepSlice's program on the compute stream.
  absl::Status KeepSlice(Unit& unit, const UnitProgram& program);
  // True if the unit has the slice, kGroupSlice or kForwardSlice.
  static bool HasSlice(Unit& unit, OpPlace place);
  // Frees the slice after making the compute stream wait for its last use. If the compute stream
  // has failed, returns its error, and keeps memory that may be in use until the next DropSlice.
  absl::Status DropSlice(Unit& unit, OpPlace place);
  // Runs a reduction on `comm`, and on StrategyContext::across_stream: kFull → kReduced, or → kNone
  // unless `is_last`. Full gradients return to their buffers as soon as they have been read.
  absl::Status Reduce(Unit& unit, const UnitProgram& program, bool is_last, Stream& comm);
  // Implements ShardingStrategy::Trim. Drops all slices, because the optimizer's update makes them
  // stale.
  absl::Status Trim();

 private:
  class Execution;

  Lane& lane(LaneName name) { return lanes_[static_cast<size_t>(name)]; }

  StrategyContext context_;
  std::vector<Lane> lanes_;  // by LaneName
  BufferSet handover_;
};

}  // namespace zeroth
