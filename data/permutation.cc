// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/permutation.h"

#include <bit>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/philox.h"

namespace zeroth {
namespace {

// Four rounds of a good round function make a pseudo-random permutation (Luby and Rackoff, 1988);
// tiny halves, where that bound says little, deserve a few more.
constexpr uint32_t kRounds = 8;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t epoch)
    : size_(static_cast<uint64_t>(size)), seed_(seed), epoch_(epoch) {
  ZEROTH_CHECK(size >= 1 && size <= int64_t{1} << 62);
  const int bits = std::bit_width(size_ - 1);
  half_bits_ = (bits + 1) / 2;
}

uint64_t Permutation::Encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed =
        Philox4x32({static_cast<uint32_t>(right), round, static_cast<uint32_t>(epoch_),
                    static_cast<uint32_t>(epoch_ >> 32)},
                   {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)})[0];
    const uint64_t next = left ^ (mixed & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator()(int64_t index) const {
  ZEROTH_CHECK(index >= 0 && static_cast<uint64_t>(index) < size_);
  // The domain is below four times the size. The loop ends, because the cycle leads back to
  // `index`.
  uint64_t value = Encrypt(static_cast<uint64_t>(index));
  while (value >= size_) value = Encrypt(value);
  return static_cast<int64_t>(value);
}

}  // namespace zeroth
