// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Stochastic rounding with counter-based draws (core/base/philox.h): they depend on what is
// rounded, and not on the rank, call, device or number of threads.
//
// In a step, element e of a parameter's stream draws two words of one Philox 4x32-10 block w[0..3],
// whose counter is {low, high} of e / 2, {low, high} of the stream, and whose key is the step's.
// The lower half of w[e % 2] rounds the first moment and its upper half the second; the lower half
// of w[2 + e % 2] rounds the parameter. Two elements share a block because each rounding uses only
// 16 bits, so that one 64-bit lane serves two 32-bit lanes.

#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace zeroth {

// The Philox key of one step. All zeros is a legal key, too.
struct RoundingKey {
  uint32_t low = 0;
  uint32_t high = 0;
};

// Returns the key for a seed and step. Keys of different seeds, steps and names are independent,
// also of every CounterRng of that seed.
RoundingKey MakeRoundingKey(uint64_t seed, int64_t step,
                            absl::string_view name = "stochastic rounding");

// Returns the four words of the Philox block with this counter and key.
std::array<uint32_t, 4> DrawBlock(const RoundingKey& key, uint64_t stream, uint64_t block);

// The bits that round one element, by the definition above. Implementations compute them in
// vectors.
struct RoundingBits {
  uint16_t first_moment = 0;
  uint16_t second_moment = 0;
  uint16_t param = 0;
};
RoundingBits RoundingBitsOf(const RoundingKey& key, uint64_t stream, int64_t element);

}  // namespace zeroth
