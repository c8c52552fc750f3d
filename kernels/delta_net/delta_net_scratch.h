// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The scratch memory of the gated delta rule's kernels, in floats, also for plans.

#pragma once

#include <algorithm>
#include <cstdint>

#include "zeroth/kernels/delta_net/delta_net.h"

namespace zeroth::cpu {

// The floats of one thread. At most batch * key_heads threads compute.
inline int64_t DeltaForwardFloats(const DeltaNetShape& shape) {
  const int64_t group = shape.value_heads / shape.key_heads;
  return group * shape.key_dim * shape.value_dim + 2 * shape.key_dim + 3 * shape.value_dim;
}

inline int64_t DeltaBackwardFloats(const DeltaNetShape& shape) {
  const int64_t group = shape.value_heads / shape.key_heads;
  return (group + 1 + kDeltaChunk) * shape.key_dim * shape.value_dim +
         kDeltaChunk * (4 * shape.key_dim + 2 * shape.value_dim) + 2 * shape.value_dim;
}

}  // namespace zeroth::cpu

namespace zeroth::cuda {

// A block computes kColumns columns of the state of one value head of one sequence.
inline constexpr int kColumns = 32;
inline constexpr int kDeltaWarps = 8;

inline constexpr int64_t Slices(const DeltaNetShape& shape) {
  return (shape.value_dim + kColumns - 1) / kColumns;
}

// The rows of a state, at least key_dim, that kernels are compiled for.
inline constexpr int kFewestStateRows = 32;
inline constexpr int kManyStateRows = 128;
inline int64_t StateRows(int64_t key_dim) {
  if (key_dim <= kFewestStateRows) return kFewestStateRows;
  return key_dim <= kManyStateRows ? kManyStateRows : kMostKeyDim;
}

// The floats for all tokens: the DeltaGates of each value head, and for each key head the inverse
// lengths of its query and of its key.
inline int64_t DeltaTokenFloats(const DeltaNetShape& shape) {
  return shape.batch * shape.seq * (4 * shape.value_heads + 2 * shape.key_heads);
}

// The sequences of a launch of backward: as many as keep about two blocks on each SM of a large
// GPU, since each block needs scratch memory. It depends on the shape alone.
inline int64_t SequencesAtOnce(const DeltaNetShape& shape) {
  constexpr int64_t kBlocksAtOnce = 256;
  if (shape.batch * shape.seq == 0) return 0;
  return std::clamp<int64_t>(kBlocksAtOnce / (shape.value_heads * Slices(shape)), 1, shape.batch);
}

// The floats that the blocks of backward keep for these chunks and tokens of each sequence: for a
// chunk the gradient of a state; for a token a state, two rows of its columns, the gradients of
// query and key, and those of two gates.
inline int64_t DeltaKeptFloats(const DeltaNetShape& shape, int64_t sequences, int64_t chunks,
                               int64_t tokens) {
  const int64_t rows = StateRows(shape.key_dim);
  const int64_t state = rows * kColumns;
  return sequences * shape.value_heads * Slices(shape) *
         (chunks * state + tokens * (state + 2 * kColumns + 2 * rows + 2));
}

// The floats of all blocks of a launch of backward.
inline int64_t DeltaBlockFloats(const DeltaNetShape& shape) {
  return DeltaKeptFloats(shape, SequencesAtOnce(shape), 1, kDeltaChunk);
}

}  // namespace zeroth::cuda
