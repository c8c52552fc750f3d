// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/mixture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"

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

absl::StatusOr<std::shared_ptr<const Mixture>> Mixture::Create(
    std::vector<WeightedSource> sources) {
  ZEROTH_CHECK(!sources.empty());
  double sum = 0;
  for (const WeightedSource& entry : sources) {
    if (!(entry.weight > 0) || !std::isfinite(entry.weight)) {
      return InvalidArgument(entry.source->description(), ": a weight of ", entry.weight,
                             ", expected a number above 0; leave out what is not to be trained on");
    }
    sum += entry.weight;
  }
  std::vector<Part> parts;
  std::vector<double> remainders;
  for (WeightedSource& entry : sources) {
    const double exact = entry.weight / sum * static_cast<double>(kBlock);
    if (!(exact >= 0.5)) {
      return InvalidArgument(entry.source->description(), ": a weight of ", entry.weight,
                             " is less than 1 in ", 2 * kBlock, " of all, ", sum,
                             "; expected more, or no such source");
    }
    // Every source has at least one window in a block.
    const auto share = std::max<int64_t>(1, static_cast<int64_t>(std::floor(exact)));
    parts.push_back({std::move(entry.source), share});
    remainders.push_back(exact - static_cast<double>(share));
  }
  int64_t left = kBlock;
  for (const Part& part : parts) left -= part.share;
  // The largest remainders get the rest; the largest share gives up the excess.
  for (; left > 0; --left) {
    const auto most = std::max_element(remainders.begin(), remainders.end());
    *most -= 1;
    ++parts[static_cast<size_t>(most - remainders.begin())].share;
  }
  if (left < 0) {
    Part& largest = *std::max_element(
        parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.share < b.share; });
    if (-left > largest.share / 10) {
      const auto small = std::count_if(remainders.begin(), remainders.end(),
                                       [](double remainder) { return remainder < 0; });
      return InvalidArgument(
          small, " of ", parts.size(), " sources weigh less than 1 in ", kBlock,
          " of all. In each ", kBlock, " windows they have one each, and ",
          largest.source->description(), " would give up ", -left, " of its ", largest.share,
          ", expected at most a tenth; join small sources to one, as a directory or a glob");
    }
    largest.share += left;
  }
  return std::shared_ptr<const Mixture>(new Mixture(std::move(parts)));
}

std::vector<Mixture::Place> Mixture::PlacesOfBlock(int64_t block, uint64_t seed) const {
  const Permutation order(kBlock, CounterRng(seed, "mixture").Bits64(0),
                          static_cast<uint64_t>(block));
  std::vector<int64_t> next;
  std::vector<int64_t> ends;
  for (const Part& part : parts_) {
    next.push_back(block * part.share);
    ends.push_back((ends.empty() ? 0 : ends.back()) + part.share);
  }
  std::vector<Place> places;
  for (int64_t i = 0; i < kBlock; ++i) {
    const auto source =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), order(i)) - ends.begin());
    places.push_back({source, next[source]++});
  }
  return places;
}

std::vector<Mixture::Place> Mixture::Places(int64_t first, int64_t count, uint64_t seed) const {
  std::vector<Place> places;
  if (parts_.size() == 1) {
    for (int64_t i = 0; i < count; ++i) places.push_back({0, first + i});
    return places;
  }
  std::vector<Place> block;
  for (int64_t index = first; index < first + count; ++index) {
    const int64_t within = index % kBlock;
    if (block.empty() || within == 0) block = PlacesOfBlock(index / kBlock, seed);
    places.push_back(block[static_cast<size_t>(within)]);
  }
  return places;
}

int64_t Mixture::DistinctWindows(absl::Span<const int64_t> counts, uint64_t seed) const {
  if (parts_.size() == 1) return counts[0];
  // Only in this block can a source be used up first.
  int64_t block = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < parts_.size(); ++i) block = std::min(block, counts[i] / parts_[i].share);
  const std::vector<Place> places = PlacesOfBlock(block, seed);
  const auto repeated = std::find_if(places.begin(), places.end(), [&](const Place& place) {
    return place.index >= counts[place.source];
  });
  return block * kBlock + (repeated - places.begin());
}

int64_t Mixture::tokens() const {
  return std::accumulate(parts_.begin(), parts_.end(), int64_t{0},
                         [](int64_t sum, const Part& part) { return sum + part.source->size(); });
}

bool Mixture::has_marks() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.source->has_marks(); });
}

std::vector<std::string> Mixture::notes() const {
  std::vector<std::string> notes;
  for (const Part& part : parts_) {
    notes.insert(notes.end(), part.source->notes().begin(), part.source->notes().end());
  }
  return notes;
}

std::string Mixture::description() const {
  if (parts_.size() == 1) return parts_[0].source->description();
  return absl::StrJoin(parts_, ", ", [](std::string* out, const Part& part) {
    absl::StrAppend(out, part.source->description(), " (", part.share, " of ", kBlock, ")");
  });
}

absl::StatusOr<uint64_t> Mixture::Hash(int64_t most) const {
  if (parts_.size() == 1) return HashTokens(*parts_[0].source, most);
  std::string all;
  for (const Part& part : parts_) {
    ZEROTH_ASSIGN_OR_RETURN(const uint64_t hash, HashTokens(*part.source, most));
    absl::StrAppend(&all, hash, ":", part.share, ";");
  }
  return std::max<uint64_t>(ChecksumOf(all), 1);
}

}  // namespace zeroth
