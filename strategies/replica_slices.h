// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/comm/communicator.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/strategies/unit.h"

namespace zeroth {

// Divides the loading of a state among the data-parallel ranks that hold the same shard of a
// segment, its replicas. Each rank reads a slice, and Exchange all-gathers the slices. So storage
// is read once, however many replicas there are. Slices have equal sizes, in whole blocks of
// LayoutOptions::block_numel; each rank reads the few elements after the last slice itself.
//
// Tensor ranks that hold copies of one parameter count as separate replicas, which all read.
class ReplicaSlices {
 public:
  // For states of the elements [begin, begin + numel) of the unit's shard of a segment, with one
  // element for each of these or for each `block` of them. A slice has whole blocks, also of
  // LayoutOptions::block_numel. The unit outlives the result.
  ReplicaSlices(const Unit& unit, int segment, int64_t begin, int64_t numel, int64_t block);
  // For the parameters.
  ReplicaSlices(const Unit& unit, int segment);

  // Returns the parts of a piece of the shard that this rank reads: none, one or two.
  std::vector<ShardLayout::Piece> PartsToRead(const ShardLayout::Piece& piece) const;

  // All-gathers `state`, so that it also has the slices that other replicas have read. It has one
  // element for each `block` elements of the range; `block` is 1 or that of the constructor.
  // Collective over the replicas, in the same order on every rank; waits for the compute stream.
  // Offloaded state is staged in memory in pieces of at most 4 MiB, or of one element for each
  // replica if that is more.
  absl::Status Exchange(const StateTensor& state, int64_t block, absl::string_view label) const;

 private:
  const Unit* unit_;
  Communicator* replicas_;  // nullptr if no other rank has this shard
  int64_t begin_;
  int64_t slice_ = 0;  // elements in a slice
};

}  // namespace zeroth
