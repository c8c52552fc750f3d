// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), a
// counter-based generator: a draw depends on (seed, stream, index) alone, not on the order of
// calls.

#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// One block of four words: Philox 4x32 with ten rounds. Matches the Random123 known-answer vectors.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A hash of 64 well-mixed bits, the same in every process, so that ranks agree on a stream by its
// name.
uint64_t HashName(absl::string_view name);

// An independent stream of draws for a seed and a name, typically of a parameter. Every element has
// its own draw, so ranks that own different elements of a parameter need no communication to agree
// on its initial values. The Philox key is the seed. The counter is the index (of one element, or
// of four for normals) and a 64-bit hash of the name. Immutable and thread-safe.
class CounterRng {
 public:
  CounterRng(uint64_t seed, absl::string_view name);

  // Bits, Bits64 and Uniform of one index are views of the same draw; use another name where they
  // must be independent. Uniform on [0, 2^32).
  uint32_t Bits(uint64_t index) const;
  // Uniform on [0, 2^64).
  uint64_t Bits64(uint64_t index) const;
  // Uniform on [0, 1), a multiple of 2^-24.
  float Uniform(uint64_t index) const;

  // out[i] = draw of element begin + i of a standard normal, times stddev: Box-Muller over one
  // Philox block for every four elements, so |draw| < 6.7. The value of an element does not depend
  // on `begin` or on the length of `out`, and has the same bits on every machine with IEEE
  // arithmetic. Independent of the draws above.
  void FillNormal(uint64_t begin, float stddev, absl::Span<float> out) const;

 private:
  std::array<uint32_t, 4> Block(uint64_t index) const;

  std::array<uint32_t, 2> key_;
  uint64_t stream_;
};

}  // namespace zeroth
