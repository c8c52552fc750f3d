// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A stable radix sort of small keys on the device, from the least significant digit on.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

inline constexpr int kSortDigitBits = 4;
inline constexpr int kSortThreads = 256;
inline constexpr int kSortItemsPerThread = 4;
inline constexpr int64_t kSortTile = int64_t{kSortThreads} * kSortItemsPerThread;

// Returns the number of passes over the data for keys in [0, limit).
inline int SortPasses(int64_t limit) {
  int passes = 1;
  while (passes * kSortDigitBits < 32 && (int64_t{1} << (passes * kSortDigitBits)) < limit) {
    ++passes;
  }
  return passes;
}

// Returns the number of int32 scratch elements for `count` items: two arrays of keys, one of places
// (the other is the result), and the digits' counts in each tile.
inline int64_t SortScratch(int64_t count) {
  const int64_t tiles = (count + kSortTile - 1) / kSortTile;
  return 3 * count + tiles * (1 << kSortDigitBits);
}

// sorted_places = the places [0, count) sorted by keys[place]; places with equal keys stay in
// order. Sets sorted_keys to the sorted keys, which lie in the scratch memory. Keys outside of [0,
// limit) count as 0.
absl::Status SortPlaces(int64_t count, int64_t limit, const int32_t* keys, int32_t* sorted_places,
                        const int32_t** sorted_keys, int32_t* scratch, const LaunchTarget& target);

}  // namespace zeroth::cuda
