// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Which code of kernels/adamw/moment_codes.h stores a state in 8 bits. The scales are then a
// separate state, named with the suffix "_scale".
enum class StateCoding { kNone, kFirstMoment, kSecondMoment };

// State that is kept beside one segment of a unit's parameters: a moment, the scales of a moment,
// an average. For code that saves and restores it without knowing what it is.
struct ShardState {
  const Unit* unit = nullptr;
  int segment = 0;
  std::string name;  // the same for this state of all segments
  // [ceil(shard_numel / block)]: one element for each block of elements of the unit's shard, which
  // starts and ends with a block. Shares memory with its owner.
  StateTensor shard;
  int64_t block = 1;
  // Set even if the state is not 8-bit here, since it may be 8-bit in a checkpoint.
  StateCoding coding = StateCoding::kNone;
  // For a state that covers only a part of the segment: the part's first element in the unit's
  // shard, and the parameters in the part, by their index in the unit. `shard` ends with the part.
  int64_t begin = 0;
  std::vector<int> parameters = {};  // empty: all parameters of the segment, and `begin` is 0
};

// Returns the parameters that the state belongs to, by their index in the unit.
inline const std::vector<int>& ParametersOf(const ShardState& state) {
  return state.parameters.empty() ? state.unit->segment_layout(state.segment).parameters
                                  : state.parameters;
}

}  // namespace zeroth
