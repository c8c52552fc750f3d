// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Stochastic rounding whose draws are a function of what is rounded and not of who rounds it: which
// rank, which call, which device, how many threads. Counter-based (see core/base/philox.h).
//
// Element e of a parameter's stream has 64 bits in a step: with w[0..3] the Philox 4x32-10 block of
// counter {low, high} of e / 2, {low, high} of the stream, and the step's key, they are
//   w[e % 2]      of which the lower half rounds the first moment and the upper half the second,
//   w[2 + e % 2]  of which the lower half rounds the parameter.
// Two elements share a block because 16 bits are all that a rounding can use: a 64-bit lane then
// computes one block and yields two 32-bit lanes.

#ifndef ZEROTH_KERNELS_ADAMW_ROUNDING_H_
#define ZEROTH_KERNELS_ADAMW_ROUNDING_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace zeroth {

// The Philox key of one step, all zero bytes included among the legal ones.
struct RoundingKey {
  uint32_t low = 0;
  uint32_t high = 0;
};

// Independent keys for different (seed, step), and independent of every CounterRng of that seed and
// of keys of other names.
RoundingKey MakeRoundingKey(uint64_t seed, int64_t step,
                            absl::string_view name = "stochastic rounding");

// The four words of the Philox block with this counter and key.
std::array<uint32_t, 4> DrawBlock(const RoundingKey& key, uint64_t stream, uint64_t block);

// The 64 bits of one element, by the definition above: what implementations compute in vectors.
struct RoundingBits {
  uint16_t first_moment = 0;
  uint16_t second_moment = 0;
  uint16_t param = 0;
};
RoundingBits RoundingBitsOf(const RoundingKey& key, uint64_t stream, int64_t element);

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_ADAMW_ROUNDING_H_
