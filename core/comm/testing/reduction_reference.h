// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The reference for tests of reductions: as communicator.h defines them, one element at a time.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/comm/communicator.h"

namespace zeroth::testing {

inline float AsFloat(float value) { return value; }
inline float AsFloat(BFloat16 value) { return ToFloat(value); }
inline float AsFloat(Float16 value) { return ToFloat(value); }

template <typename T>
T FromFloat(float value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(value);
  } else if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(value);
  } else {
    return value;
  }
}

template <typename T>
T RandomValue(const CounterRng& rng, uint64_t index) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(rng.Bits64(index));
  } else {
    // Magnitudes differ, so that another order of additions rounds differently.
    const float scale = std::exp2(static_cast<float>(rng.Bits(index) % 8));
    return FromFloat<T>((rng.Uniform(index + (1ull << 40)) - 0.5f) * scale);
  }
}

// Reduces one element of each rank, in rank order, along the fixed tree, and scales it for kMean.
// Does not round to a dtype.
float ReferenceReduceFloats(ReduceOp op, absl::Span<const float> ranks);

// Reduces one element of each rank, in rank order.
template <typename T>
T ReferenceReduce(ReduceOp op, absl::Span<const T> ranks) {
  if constexpr (std::is_integral_v<T>) {
    T result = ranks[0];
    for (T value : ranks.subspan(1)) {
      using Wide = uint64_t;
      result = op == ReduceOp::kMax
                   ? std::max(result, value)
                   : static_cast<T>(static_cast<Wide>(result) + static_cast<Wide>(value));
    }
    return result;
  } else {
    std::vector<float> values;
    for (T value : ranks) values.push_back(AsFloat(value));
    return FromFloat<T>(ReferenceReduceFloats(op, values));
  }
}

// Reduces all elements of values[rank], of which every rank has the same number.
template <typename T>
std::vector<T> ReferenceReduceAll(const std::vector<std::vector<T>>& values, ReduceOp op) {
  std::vector<T> result;
  std::vector<T> ranks(values.size());
  for (size_t i = 0; i < values.front().size(); ++i) {
    for (size_t rank = 0; rank < values.size(); ++rank) ranks[rank] = values[rank][i];
    result.push_back(ReferenceReduce<T>(op, ranks));
  }
  return result;
}

}  // namespace zeroth::testing
