// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a
// counter-based generator, so that a draw is a pure function of (seed, stream, index) and not of
// the order of the calls.

#ifndef ZEROTH_CORE_BASE_PHILOX_H_
#define ZEROTH_CORE_BASE_PHILOX_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

// One block of four words: Philox 4x32 with ten rounds. Matches the Random123 known-answer vectors.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// 64 well-mixed bits of a name: the same in every process, so that ranks agree on a stream by its
// name alone.
uint64_t HashName(absl::string_view name);

// An independent stream of draws named by a seed and a name, typically a parameter's. Every element
// has its own draw: ranks that own different elements of one parameter need not talk to agree on
// its initial values. The Philox key is the seed; the counter is the index (of the element, or of
// four for normals) and a 64-bit hash of the name. Immutable and thread-safe.
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

#endif  // ZEROTH_CORE_BASE_PHILOX_H_
