// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/mixture.h"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/data/loader.h"
#include "zeroth/data/token_source.h"

namespace zeroth {
namespace {

using testing::HasSubstr;

// Tokens first, first + 1, ...: each is found once.
class Numbers final : public TokenSource {
 public:
  Numbers(int32_t first, int64_t size)
      : TokenSource({size, 0, false, absl::StrCat("from ", first), {}}), first_(first) {}

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = first_ + static_cast<int32_t>(begin) + static_cast<int32_t>(i);
    }
    return absl::OkStatus();
  }

  const int32_t first_;
};

std::shared_ptr<const TokenSource> Source(int32_t first, int64_t size) {
  return std::make_shared<const Numbers>(first, size);
}

std::shared_ptr<const Mixture> Mix(const std::vector<double>& weights) {
  std::vector<WeightedSource> sources;
  for (const double weight : weights) {
    sources.push_back({Source(static_cast<int32_t>(sources.size()) * 100'000, 1001), weight});
  }
  auto mixture = Mixture::Create(std::move(sources));
  EXPECT_TRUE(mixture.ok()) << mixture.status();
  return *std::move(mixture);
}

TEST(MixtureTest, SharesAreTheWeightsInThousandths) {
  const std::vector<std::pair<std::vector<double>, std::vector<int64_t>>> cases = {
      {{0.7, 0.3}, {700, 300}},
      {{1, 1, 1}, {334, 333, 333}},
      {{5}, {1000}},
      {{2, 1, 1}, {500, 250, 250}},
      // Each of six weights of about half a thousandth gets one window, taken from the largest.
      {{994, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 2.4}, {992, 1, 1, 1, 1, 1, 1, 2}}};
  for (const auto& [weights, shares] : cases) {
    const auto mixture = Mix(weights);
    for (size_t i = 0; i < shares.size(); ++i) EXPECT_EQ(mixture->share(i), shares[i]) << i;
  }
}

// Any stretch is found without what is before it; each source's sequences come in order, none twice
// and none left out; and a block has each source as often as its share, not in one lump.
TEST(MixtureTest, PlacesAreAFunctionOfTheNumber) {
  const auto mixture = Mix({0.6, 0.3, 0.1});
  const std::vector<Mixture::Place> all = mixture->Places(0, 5000, 7);
  std::vector<int64_t> next(3, 0);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].index, next[all[i].source]++) << i;
    if ((i + 1) % 1000 != 0) continue;
    const auto blocks = static_cast<int64_t>(i + 1) / 1000;
    EXPECT_EQ(next, (std::vector<int64_t>{600 * blocks, 300 * blocks, 100 * blocks}));
  }
  // In 100 in a row, about 60 are of the first: five standard deviations are 25.
  for (size_t begin = 0; begin < all.size(); begin += 100) {
    int64_t first = 0;
    for (size_t i = begin; i < begin + 100; ++i) first += all[i].source == 0 ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(first), 60, 25) << begin;
  }
  for (const int64_t begin : {0, 1, 999, 1000, 2345}) {
    const std::vector<Mixture::Place> part = mixture->Places(begin, 1200, 7);
    for (size_t i = 0; i < part.size(); ++i) {
      EXPECT_EQ(part[i].source, all[static_cast<size_t>(begin) + i].source);
      EXPECT_EQ(part[i].index, all[static_cast<size_t>(begin) + i].index);
    }
  }
  size_t others = 0;
  const std::vector<Mixture::Place> seeded = mixture->Places(0, 1000, 8);
  for (size_t i = 0; i < seeded.size(); ++i) others += seeded[i].source != all[i].source ? 1 : 0;
  EXPECT_GT(others, 200u);
}

// The loader's output is the same however the global batch is split, begins anywhere, and has every
// window of a source once in that source's epoch.
TEST(MixtureTest, TheLoaderDrawsFromEachSourceInSeparateEpochs) {
  const auto mixture = Mix({0.8, 0.2});
  constexpr int64_t kSeq = 10;  // 100 windows a source
  const auto load = [&](int64_t world, int64_t step, bool shuffle) {
    std::vector<int32_t> inputs;
    for (int64_t rank = 0; rank < world; ++rank) {
      LoaderOptions options;
      options.batch_size = 8 / world;
      options.seq_len = kSeq;
      options.world_size = world;
      options.rank = rank;
      options.seed = 3;
      options.shuffle = shuffle;
      const Batch batch = *DataLoader::Create(mixture, options)->Load(step);
      EXPECT_EQ(batch.counted, std::nullopt);
      inputs.insert(inputs.end(), batch.inputs.begin(), batch.inputs.end());
    }
    return inputs;
  };
  for (const bool shuffle : {false, true}) {
    std::vector<std::map<int32_t, int>> times(2);
    for (int64_t step = 0; step < 125; ++step) {  // one block
      const std::vector<int32_t> inputs = load(1, step, shuffle);
      EXPECT_EQ(load(2, step, shuffle), inputs);
      EXPECT_EQ(load(8, step, shuffle), inputs);
      for (size_t row = 0; row < inputs.size(); row += kSeq) {
        const int32_t first = inputs[row];
        EXPECT_TRUE(shuffle || first % kSeq == 0);
        ++times[first >= 100'000 ? 1 : 0][first];
      }
    }
    EXPECT_EQ(times[0].size(), 100u);
    EXPECT_EQ(times[1].size(), 100u);
    for (const auto& [first, count] : times[0]) EXPECT_EQ(count, 8) << first;
    for (const auto& [first, count] : times[1]) EXPECT_EQ(count, 2) << first;
  }
  // Two sources of one size are not read in one order.
  std::vector<std::vector<int32_t>> orders(2);
  for (int64_t step = 0; step < 60; ++step) {
    const std::vector<int32_t> inputs = load(1, step, true);
    for (size_t row = 0; row < inputs.size(); row += kSeq) {
      orders[inputs[row] >= 100'000 ? 1 : 0].push_back(inputs[row] % 100'000);
    }
  }
  orders[0].resize(orders[1].size());
  EXPECT_NE(orders[0], orders[1]);
}

// An evaluation of a mixture has no window twice, and its sources in proportion to their weights.
TEST(MixtureTest, DistinctPlacesEndWhereASourceIsUsedUp) {
  for (const auto& weights : {std::vector<double>{0.8, 0.2}, {1, 1, 1}, {0.999, 0.001}}) {
    const auto mixture = Mix(weights);
    for (const int64_t windows : {1, 2, 7, 100, 2500}) {
      const std::vector<int64_t> counts(weights.size(), windows);
      const int64_t distinct = mixture->DistinctWindows(counts, 3);
      std::set<std::pair<size_t, int64_t>> seen;
      for (const Mixture::Place& place : mixture->Places(0, distinct, 3)) {
        EXPECT_LT(place.index, windows);
        EXPECT_TRUE(seen.emplace(place.source, place.index).second);
      }
      EXPECT_EQ(mixture->Places(distinct, 1, 3)[0].index, windows)
          << "the next one is a repetition";
    }
  }
}

// Documents end with a token in a stream, wherever windows begin.
TEST(MixtureTest, TheLoaderSaysWhereDocumentsBegin) {
  constexpr int32_t kEnd = 25;  // one document ends in the middle of the third window
  LoaderOptions options;
  options.batch_size = 4;
  options.seq_len = 10;
  options.shuffle = false;
  EXPECT_TRUE(DataLoader::Create(Source(0, 101), options)->Load(0)->starts.empty());
  options.documents = true;
  options.end_of_text = kEnd;
  const Batch batch = *DataLoader::Create(Source(0, 101), options)->Load(0);
  std::vector<int32_t> expected(40, 0);
  for (size_t i = 26; i < 30; ++i) expected[i] = 6;
  EXPECT_EQ(batch.starts, expected);
  // The end of a window belongs to the next one's past, which begins at 0 in any case.
  options.end_of_text = 29;
  EXPECT_EQ(DataLoader::Create(Source(0, 101), options)->Load(0)->starts,
            std::vector<int32_t>(40, 0));
}

TEST(MixtureTest, OneSourceIsReadAsItIs) {
  const auto source = Source(0, 1001);
  LoaderOptions options;
  options.seq_len = 10;
  options.seed = 9;
  const auto alone = DataLoader::Create(source, options);
  const auto mixed = DataLoader::Create(*Mixture::Create({{source, 0.25}}), options);
  ASSERT_TRUE(alone.ok() && mixed.ok());
  for (int64_t step = 0; step < 250; ++step) {
    EXPECT_EQ(alone->Load(step)->inputs, mixed->Load(step)->inputs);
  }
}

TEST(MixtureTest, HashesTellSourcesAndSharesApart) {
  std::set<uint64_t> hashes;
  for (const std::vector<double>& weights :
       std::vector<std::vector<double>>{{1, 1}, {1, 2}, {1, 1, 1}, {1}}) {
    hashes.insert(*Mix(weights)->Hash());
  }
  EXPECT_EQ(hashes.size(), 4u);
  EXPECT_EQ(*Mix({1, 2})->Hash(), *Mix({0.5, 1})->Hash());
}

TEST(MixtureTest, WeightsOfNothingAreRefused) {
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity(), 1e-4}) {
    const auto mixture = Mixture::Create({{Source(0, 10), 1}, {Source(7, 10), weight}});
    EXPECT_EQ(mixture.status().code(), absl::StatusCode::kInvalidArgument) << weight;
    EXPECT_THAT(mixture.status().message(), HasSubstr("from 7: a weight of"));
  }
}

// Every source needs one window in a block, which others must be able to give up.
TEST(MixtureTest, SourcesThatCannotHaveTheirSharesAreRefused) {
  EXPECT_EQ(Mix(std::vector<double>(1000, 1))->share(999), 1);
  std::vector<double> mostly_small(700, 0.6);
  mostly_small.push_back(580);  // would keep 300 windows of 1000
  for (const std::vector<double>& weights :
       {std::vector<double>(1001, 1), std::vector<double>(1500, 1), mostly_small}) {
    std::vector<WeightedSource> sources;
    for (const double weight : weights) sources.push_back({Source(0, 1001), weight});
    const auto mixture = Mixture::Create(std::move(sources));
    EXPECT_EQ(mixture.status().code(), absl::StatusCode::kInvalidArgument) << weights.size();
    EXPECT_THAT(mixture.status().message(), HasSubstr("sources weigh less than 1 in 1000"));
  }
}

}  // namespace
}  // namespace zeroth
