// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_OPTIM_SHARD_STATE_H_
#define ZEROTH_OPTIM_SHARD_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Which codes of kernels/adamw/moment_codes.h a state has where it is kept in 8 bits, with a state
// of scales beside it whose name has "_scale" added.
enum class StateCoding { kNone, kFirstMoment, kSecondMoment };

// What is kept beside one segment of a unit's parameters, for those who save and restore it without
// knowing what it is: a moment, the scales of one, an average.
struct ShardState {
  const Unit* unit = nullptr;
  int segment = 0;
  std::string name;  // the same for the like state of all segments
  // [ceil(shard_numel / block)]: a place for each block of elements of the unit's own shard, which
  // starts and ends with a block. Shared with its owner.
  StateTensor shard;
  int64_t block = 1;
  // Said whether or not it is kept so here: it may have been where it was saved.
  StateCoding coding = StateCoding::kNone;
  // Where it is kept for a part of the segment only: the part's first element in the unit's own
  // shard, and the parameters that lie in it, by their index in the unit. `shard` ends with the
  // part.
  int64_t begin = 0;
  std::vector<int> parameters = {};  // none: all of the segment's, and `begin` is 0
};

// Those parameters, by index in the unit.
inline const std::vector<int>& ParametersOf(const ShardState& state) {
  return state.parameters.empty() ? state.unit->segment_layout(state.segment).parameters
                                  : state.parameters;
}

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_SHARD_STATE_H_
