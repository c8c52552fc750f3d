// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_PERMUTATION_H_
#define ZEROTH_DATA_PERMUTATION_H_

#include <cstdint>

namespace zeroth {

// A pseudo-random permutation of [0, size) in constant memory: a Feistel network over the smallest
// even number of bits that holds `size`, keyed by Philox, and applied until the value is below
// `size` (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). A pure function
// of (size, seed, epoch, index), the same on every machine.
class Permutation {
 public:
  // 1 <= size <= 2^62.
  Permutation(int64_t size, uint64_t seed, uint64_t epoch);

  // The image of `index`, which is in [0, size).
  int64_t operator()(int64_t index) const;

 private:
  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t seed_;
  uint64_t epoch_;
  int half_bits_;
};

}  // namespace zeroth

#endif  // ZEROTH_DATA_PERMUTATION_H_
