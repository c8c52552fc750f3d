// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_DATA_MIXTURE_H_
#define ZEROTH_DATA_MIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/token_source.h"

namespace zeroth {

struct WeightedSource {
  std::shared_ptr<const TokenSource> source;
  double weight = 1;
};

// Sources of which an endless sequence of sequences (rows that a model is trained on) is drawn, in
// shares as their weights say. Of each kBlock sequences every source has the same number, its
// weight in thousandths of the sum; which ones they are is random, and a function of seed and
// number alone. So any place in the sequence is found at once, on any rank. Immutable and
// thread-safe.
class Mixture {
 public:
  static constexpr int64_t kBlock = 1000;

  // InvalidArgument names a source whose weight is not above 0, or less than half a thousandth of
  // the sum; at least one source.
  static absl::StatusOr<std::shared_ptr<const Mixture>> Create(std::vector<WeightedSource> sources);

  size_t sources() const { return parts_.size(); }
  const TokenSource& source(size_t i) const { return *parts_[i].source; }
  // Sequences of each kBlock.
  int64_t share(size_t i) const { return parts_[i].share; }

  // Which of a source's own sequences, counted from 0, one of the whole is.
  struct Place {
    size_t source = 0;
    int64_t index = 0;
  };
  // Of sequences [first, first + count), 0 <= first.
  std::vector<Place> Places(int64_t first, int64_t count, uint64_t seed) const;

  // Of all sources.
  int64_t tokens() const;
  bool has_marks() const;
  std::vector<std::string> notes() const;
  // What messages call this: the sources, with their shares if there are several.
  std::string description() const;
  // HashTokens of the only source, or of all and their shares. Errors of the sources.
  absl::StatusOr<uint64_t> Hash() const;

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

#endif  // ZEROTH_DATA_MIXTURE_H_
