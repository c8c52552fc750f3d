// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/data/token_source.h"

namespace zeroth {

// A pseudo-random permutation of [0, size) in constant memory: a Feistel network over the smallest
// even number of bits that holds `size`, keyed by Philox, and applied until the value is below
// `size` (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). A pure function
// of (size, seed, epoch, index), the same on every machine.
class Permutation {
 public:
  // 1 <= size <= 2^62.
  Permutation(int64_t size, uint64_t seed, uint64_t epoch);

  // Returns where the permutation puts `index`. 0 <= index < size.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t seed_;
  uint64_t epoch_;
  int half_bits_;
};

struct WeightedSource {
  std::shared_ptr<const TokenSource> source;
  double weight = 1;
};

// Draws an endless sequence of windows from several sources, in proportion to their weights. Every
// kBlock windows have the same number of each source: its weight in thousandths of the sum, and at
// least one, which the source with the largest share gives up. Their order is random, but a
// function of seed and index alone, so that every rank can compute any place directly. Immutable
// and thread-safe.
class Mixture {
 public:
  static constexpr int64_t kBlock = 1000;

  // Needs at least one source. InvalidArgument names a source whose weight is not above 0, or is
  // less than half a thousandth of the sum. So is an error if the largest share would give up more
  // than a tenth.
  static absl::StatusOr<std::shared_ptr<const Mixture>> Create(std::vector<WeightedSource> sources);

  size_t sources() const { return parts_.size(); }
  const TokenSource& source(size_t i) const { return *parts_[i].source; }
  // Windows of a source in each kBlock.
  int64_t share(size_t i) const { return parts_[i].share; }

  // A window: its source, and its index among the source's windows.
  struct Place {
    size_t source = 0;
    int64_t index = 0;
  };
  // Returns the places of windows [first, first + count), 0 <= first.
  std::vector<Place> Places(int64_t first, int64_t count, uint64_t seed) const;

  // Returns the number of leading windows of the sequence before any window repeats, if source i
  // has counts[i] windows and then starts over. The first source that runs out ends them, so they
  // contain the sources in proportion to their weights.
  int64_t DistinctWindows(absl::Span<const int64_t> counts, uint64_t seed) const;

  // Sums over all sources.
  int64_t tokens() const;
  bool has_marks() const;
  std::vector<std::string> notes() const;
  // Names the sources in messages, with their shares if there are several.
  std::string description() const;
  // HashTokens of the only source, or of all and their shares. Errors of the sources.
  absl::StatusOr<uint64_t> Hash(int64_t most = kHashedTokens) const;

 private:
  struct Part {
    std::shared_ptr<const TokenSource> source;
    int64_t share = kBlock;
  };
  explicit Mixture(std::vector<Part> parts) : parts_(std::move(parts)) {}
  std::vector<Place> PlacesOfBlock(int64_t block, uint64_t seed) const;

  const std::vector<Part> parts_;
};

}  // namespace zeroth
