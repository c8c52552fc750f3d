// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Stochastic rounding. Its draws depend on what is rounded, and not on the rank, call, device or
// number of threads. They are counter-based (see core/base/philox.h).
//
// Element e of a parameter's stream has 64 bits in a step: with w[0..3] the Philox 4x32-10 block of
// counter {low, high} of e / 2, {low, high} of the stream, and the step's key, they are w[e % 2]
// (the lower half rounds the first moment, the upper half the second) and w[2 + e % 2] (the lower
// half rounds the parameter). Two elements share a block, because a rounding uses only 16 bits. A
// 64-bit lane then computes one block, for two 32-bit lanes.

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
