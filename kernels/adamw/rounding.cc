// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/rounding.h"

#include <array>
#include <cstddef>

#include "zeroth/core/base/philox.h"

namespace zeroth {
namespace {

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

RoundingKey MakeRoundingKey(uint64_t seed, int64_t step, absl::string_view name) {
  // No other random numbers use the stream of this name.
  const CounterRng keys(seed, name);
  const uint64_t key = keys.Bits64(static_cast<uint64_t>(step));
  return {Low(key), High(key)};
}

std::array<uint32_t, 4> DrawBlock(const RoundingKey& key, uint64_t stream, uint64_t block) {
  return Philox4x32({Low(block), High(block), Low(stream), High(stream)}, {key.low, key.high});
}

RoundingBits RoundingBitsOf(const RoundingKey& key, uint64_t stream, int64_t element) {
  const std::array<uint32_t, 4> words = DrawBlock(key, stream, static_cast<uint64_t>(element) / 2);
  const size_t odd = static_cast<size_t>(element) % 2;
  return {static_cast<uint16_t>(words[odd]), static_cast<uint16_t>(words[odd] >> 16),
          static_cast<uint16_t>(words[2 + odd])};
}

}  // namespace zeroth
