// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/cuda/kernel_language.h"
#include "zeroth/kernels/cuda/elements.h"
#include "zeroth/kernels/embedding/radix_sort.h"

namespace zeroth::cuda {
namespace {

constexpr int kDigits = 1 << kSortDigitBits;

__global__ void __launch_bounds__(kMapThreads, kBlocksPerMultiprocessor)
    PrepareKeys(int64_t count, int64_t limit, const int32_t* keys, int32_t* own, int32_t* places) {
  for (const int64_t i : ItemsOfThread(count)) {
    const int32_t key = keys[i];
    own[i] = key >= 0 && key < limit ? key : 0;
    places[i] = static_cast<int32_t>(i);
  }
}

// counts[digit * tiles + tile] = the number of times that the digit occurs in the tile.
__global__ void __launch_bounds__(kSortThreads)
    CountDigits(int64_t count, int shift, const int32_t* keys, int32_t* counts) {
  ZEROTH_SHARED(int, shared, [kDigits]);
  if (threadIdx.x < kDigits) shared[threadIdx.x] = 0;
  __syncthreads();
  const int64_t begin = int64_t{blockIdx.x} * kSortTile;
  for (int i = 0; i < kSortItemsPerThread; ++i) {
    const int64_t at = begin + i * kSortThreads + threadIdx.x;
    if (at < count) atomicAdd(&shared[(keys[at] >> shift) & (kDigits - 1)], 1);
  }
  __syncthreads();
  if (threadIdx.x < kDigits) counts[threadIdx.x * gridDim.x + blockIdx.x] = shared[threadIdx.x];
}

// Replaces each count with the sum of all earlier ones. One block suffices, since there are few.
__global__ void __launch_bounds__(kSortThreads) ScanCounts(int64_t count, int32_t* counts) {
  ZEROTH_SHARED(int, sums, [kSortThreads]);
  int carry = 0;
  for (int64_t begin = 0; begin < count; begin += kSortThreads) {
    const int64_t at = begin + threadIdx.x;
    const int own = at < count ? counts[at] : 0;
    sums[threadIdx.x] = own;
    __syncthreads();
    for (int distance = 1; distance < kSortThreads; distance *= 2) {
      const int before =
          static_cast<int>(threadIdx.x) >= distance ? sums[threadIdx.x - distance] : 0;
      __syncthreads();
      sums[threadIdx.x] += before;
      __syncthreads();
    }
    if (at < count) counts[at] = carry + sums[threadIdx.x] - own;
    carry += sums[kSortThreads - 1];
    __syncthreads();
  }
}

// Moves each item to the place of its digit. A thread has neighbouring items, so that its items
// come before those of the next thread. The rank of an item in its tile is the sum of the counts of
// earlier (digit, thread) pairs.
__global__ void __launch_bounds__(kSortThreads)
    MoveItems(int64_t count, int shift, const int32_t* keys, const int32_t* places,
              const int32_t* counts, int32_t* keys_out, int32_t* places_out) {
  ZEROTH_SHARED(int, ranks, [kDigits * kSortThreads]);
  const int64_t begin =
      int64_t{blockIdx.x} * kSortTile + int64_t{threadIdx.x} * kSortItemsPerThread;
  for (int digit = 0; digit < kDigits; ++digit) ranks[digit * kSortThreads + threadIdx.x] = 0;
  for (int i = 0; i < kSortItemsPerThread && begin + i < count; ++i) {
    ++ranks[((keys[begin + i] >> shift) & (kDigits - 1)) * kSortThreads + threadIdx.x];
  }
  __syncthreads();
  // For each digit, the number of items of this and earlier threads.
  for (int distance = 1; distance < kSortThreads; distance *= 2) {
    int before[kDigits];
    for (int digit = 0; digit < kDigits; ++digit) {
      before[digit] = static_cast<int>(threadIdx.x) >= distance
                          ? ranks[digit * kSortThreads + threadIdx.x - distance]
                          : 0;
    }
    __syncthreads();
    for (int digit = 0; digit < kDigits; ++digit) {
      ranks[digit * kSortThreads + threadIdx.x] += before[digit];
    }
    __syncthreads();
  }
  int next[kDigits];
  for (int digit = 0; digit < kDigits; ++digit) {
    const int earlier = threadIdx.x == 0 ? 0 : ranks[digit * kSortThreads + threadIdx.x - 1];
    next[digit] = counts[digit * gridDim.x + blockIdx.x] + earlier;
  }
  for (int i = 0; i < kSortItemsPerThread && begin + i < count; ++i) {
    const int32_t key = keys[begin + i];
    const int to = next[(key >> shift) & (kDigits - 1)]++;
    keys_out[to] = key;
    places_out[to] = places[begin + i];
  }
}

}  // namespace

absl::Status SortPlaces(int64_t count, int64_t limit, const int32_t* keys, int32_t* sorted_places,
                        const int32_t** sorted_keys, int32_t* scratch, const LaunchTarget& target) {
  int32_t* keys_in = scratch;
  int32_t* keys_out = scratch + count;
  int32_t* const counts = scratch + 3 * count;
  const int passes = SortPasses(limit);
  // Each pass swaps the two arrays of places. The last pass must write the result.
  int32_t* places_in = passes % 2 == 0 ? sorted_places : scratch + 2 * count;
  int32_t* places_out = passes % 2 == 0 ? scratch + 2 * count : sorted_places;
  ZEROTH_RETURN_IF_ERROR(
      ZEROTH_MAP(PrepareKeys, count, target, count, limit, keys, keys_in, places_in));
  const int64_t tiles = (count + kSortTile - 1) / kSortTile;
  const LaunchShape shape = Blocks(tiles, kSortThreads);
  const LaunchShape one = Blocks(tiles > 0 ? 1 : 0, kSortThreads);
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = pass * kSortDigitBits;
    ZEROTH_RETURN_IF_ERROR(
        ZEROTH_LAUNCH(CountDigits, shape, target.stream, count, shift, keys_in, counts));
    ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(ScanCounts, one, target.stream, tiles * kDigits, counts));
    ZEROTH_RETURN_IF_ERROR(ZEROTH_LAUNCH(MoveItems, shape, target.stream, count, shift, keys_in,
                                         places_in, counts, keys_out, places_out));
    std::swap(keys_in, keys_out);
    std::swap(places_in, places_out);
  }
  *sorted_keys = keys_in;
  return absl::OkStatus();
}

}  // namespace zeroth::cuda
