// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// CUB's radix sort on the host: its signature and what it documents, enqueued on emulated streams.

#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "zeroth/core/device/cuda/emulation/emulated_stream.h"

namespace cub {

struct DeviceRadixSort {
  // Sorts keys that are not negative by bits [begin_bit, end_bit), stably. If `scratch` is nullptr,
  // only sets `scratch_bytes` to what it needs.
  template <typename Key, typename Value>
  static cudaError_t SortPairs(void* scratch, size_t& scratch_bytes, const Key* keys,
                               Key* sorted_keys, const Value* values, Value* sorted_values,
                               int64_t count, int begin_bit, int end_bit, cudaStream_t stream) {
    const size_t needed = static_cast<size_t>(count) * (sizeof(Key) + sizeof(Value)) + 255;
    if (scratch == nullptr) {
      scratch_bytes = needed;
      return cudaSuccess;
    }
    const int bits = end_bit - begin_bit;
    if (scratch_bytes < needed || begin_bit < 0 || bits < 1 ||
        end_bit > static_cast<int>(8 * sizeof(Key))) {
      return cudaErrorInvalidValue;
    }
    const auto sort = [=] {
      std::memset(scratch, 0xa5, needed);  // overwrites it, so that data kept there is lost
      const uint64_t mask = ~uint64_t{0} >> (64 - bits);
      std::vector<int64_t> order(static_cast<size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const auto digits = [&](int64_t i) {
          return (static_cast<uint64_t>(keys[i]) >> begin_bit) & mask;
        };
        return digits(a) < digits(b);
      });
      for (int64_t i = 0; i < count; ++i) {
        const int64_t from = order[static_cast<size_t>(i)];
        sorted_keys[i] = keys[from];
        sorted_values[i] = values[from];
      }
    };
    return zeroth::cuda::emulation::EnqueueOnEmulatedStream(stream, sort).ok()
               ? cudaSuccess
               : cudaErrorLaunchFailure;
  }
};

}  // namespace cub
