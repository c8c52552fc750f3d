// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/host_reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/comm/testing/reduction_reference.h"

namespace zeroth {
namespace {

using ::zeroth::testing::AsFloat;
using ::zeroth::testing::FromFloat;
using ::zeroth::testing::RandomValue;
using ::zeroth::testing::ReferenceReduce;
using ::zeroth::testing::ReferenceReduceFloats;

// Around the block length and the widths of vectors.
constexpr int64_t kCounts[] = {0, 1, 2, 15, 16, 17, 331, 2047, 2048, 2049, 5000};

template <typename T>
std::vector<std::vector<T>> RandomRanks(int ranks, int64_t count, uint64_t seed) {
  std::vector<std::vector<T>> values(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const CounterRng rng(seed, std::to_string(rank));
    auto& mine = values[static_cast<size_t>(rank)];
    mine.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = RandomValue<T>(rng, i);
  }
  return values;
}

template <typename T>
std::vector<T> Column(const std::vector<std::vector<T>>& ranks, size_t element) {
  std::vector<T> column;
  for (const auto& rank : ranks) column.push_back(rank[element]);
  return column;
}

template <typename T>
void ExpectSameBits(const T& actual, const T& expected, size_t element) {
  if (std::memcmp(&actual, &expected, sizeof(T)) != 0) ADD_FAILURE() << "element " << element;
}

template <typename T>
HostReduction Describe(const std::vector<const void*>& sources,
                       const std::vector<void*>& destinations, int64_t count, ReduceOp op) {
  HostReduction reduction;
  reduction.sources = sources;
  reduction.destinations = destinations;
  reduction.count = count;
  reduction.dtype = DTypeOf<T>::value;
  reduction.result_dtype = DTypeOf<T>::value;
  reduction.op = op;
  return reduction;
}

template <typename T>
std::vector<const void*> Pointers(const std::vector<std::vector<T>>& values) {
  std::vector<const void*> pointers;
  for (const auto& rank : values) pointers.push_back(rank.data());
  return pointers;
}

// The machine's best instruction set is what users get; the others must give the same bits on
// theirs.
template <typename Function>
void OnEveryInstructionSet(Function function) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::GetChosenTarget().Update(target);
    function();
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

template <typename T>
class HostReduceTest : public ::testing::Test {};

using Types = ::testing::Types<float, BFloat16, Float16, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(HostReduceTest, Types);

template <typename T>
std::vector<ReduceOp> OpsOf() {
  if (std::is_integral_v<T>) return {ReduceOp::kSum, ReduceOp::kMax};
  return {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMax};
}

template <typename T>
void ExpectTree(absl::Span<const int64_t> counts) {
  for (int ranks = 1; ranks <= 19; ++ranks) {
    for (int64_t count : counts) {
      const auto values = RandomRanks<T>(ranks, count, 7);
      for (ReduceOp op : OpsOf<T>()) {
        SCOPED_TRACE(::testing::Message() << ranks << " ranks, " << count << " elements, "
                                          << std::string(ReduceOpName(op)));
        std::vector<T> result(static_cast<size_t>(count));
        const auto sources = Pointers(values);
        const std::vector<void*> destinations = {result.data()};
        ReduceOnHost(Describe<T>(sources, destinations, count, op));
        for (size_t i = 0; i < result.size(); i += 1 + i / 16) {
          ExpectSameBits(result[i], ReferenceReduce<T>(op, Column(values, i)), i);
        }
      }
    }
  }
}

TYPED_TEST(HostReduceTest, HasTheBitsOfTheTree) { ExpectTree<TypeParam>(kCounts); }

TYPED_TEST(HostReduceTest, HasTheBitsOfTheTreeOnEveryInstructionSet) {
  OnEveryInstructionSet([] { ExpectTree<TypeParam>({131}); });
}

// Aligned groups of ranks are subtrees, whose sums are kept in fp32.
TYPED_TEST(HostReduceTest, GroupsThenAcrossHasTheBitsOfTheTree) {
  using T = TypeParam;
  using Partial = std::conditional_t<std::is_integral_v<T>, T, float>;
  const int64_t count = 2100;
  for (const auto& [ranks, group] : {std::pair(8, 4), std::pair(6, 2), std::pair(24, 8)}) {
    const auto values = RandomRanks<T>(ranks, count, 15);
    const auto sources = Pointers(values);
    for (ReduceOp op : OpsOf<T>()) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, groups of " << group);
      std::vector<std::vector<Partial>> partial;
      for (int begin = 0; begin < ranks; begin += group) {
        partial.emplace_back(static_cast<size_t>(count));
        const std::vector<const void*> members(sources.begin() + begin,
                                               sources.begin() + begin + group);
        const std::vector<void*> sum = {partial.back().data()};
        HostReduction inside =
            Describe<T>(members, sum, count, op == ReduceOp::kMean ? ReduceOp::kSum : op);
        inside.result_dtype = DTypeOf<Partial>::value;
        ReduceOnHost(inside);
      }
      std::vector<T> result(static_cast<size_t>(count));
      const auto partials = Pointers(partial);
      const std::vector<void*> destinations = {result.data()};
      HostReduction across = Describe<Partial>(partials, destinations, count, op);
      across.result_dtype = DTypeOf<T>::value;
      across.mean_of = ranks;
      ReduceOnHost(across);
      for (size_t i = 0; i < result.size(); i += 1 + i / 16) {
        ExpectSameBits(result[i], ReferenceReduce<T>(op, Column(values, i)), i);
      }
    }
  }
}

TYPED_TEST(HostReduceTest, WritesIntoItsSources) {
  using T = TypeParam;
  for (int ranks : {1, 2, 3, 4, 5, 8, 13}) {
    for (ReduceOp op : OpsOf<T>()) {
      const int64_t count = 4099;
      const auto original = RandomRanks<T>(ranks, count, 11);
      auto values = original;
      const auto sources = Pointers(values);
      std::vector<void*> destinations;
      for (int r = 0; r < ranks; ++r) {
        destinations.push_back(values[static_cast<size_t>((r + ranks / 2) % ranks)].data());
      }
      ReduceOnHost(Describe<T>(sources, destinations, count, op));
      for (size_t i = 0; i < static_cast<size_t>(count); i += 37) {
        const T expected = ReferenceReduce<T>(op, Column(original, i));
        for (const auto& rank : values) ExpectSameBits(rank[i], expected, i);
      }
    }
  }
}

TYPED_TEST(HostReduceTest, ElementsDoNotDependOnWhereTheRangeBegins) {
  using T = TypeParam;
  const int64_t count = 300;
  const auto values = RandomRanks<T>(6, count, 13);
  std::vector<T> whole(static_cast<size_t>(count));
  const auto sources = Pointers(values);
  const std::vector<void*> destinations = {whole.data()};
  ReduceOnHost(Describe<T>(sources, destinations, count, ReduceOp::kSum));
  for (int64_t begin : {1, 5, 16, 33}) {
    std::vector<const void*> tails;
    for (const auto& rank : values) tails.push_back(rank.data() + begin);
    std::vector<T> tail(static_cast<size_t>(count - begin));
    const std::vector<void*> tail_destinations = {tail.data()};
    ReduceOnHost(Describe<T>(tails, tail_destinations, count - begin, ReduceOp::kSum));
    EXPECT_EQ(std::memcmp(tail.data(), whole.data() + begin, tail.size() * sizeof(T)), 0);
  }
}

template <typename T>
void ExpectEveryHalfSurvives() {
  // Every bit pattern, through the conversion in and out: one rank, mean of one.
  std::vector<T> values(1 << 16);
  for (size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<uint16_t>(i);
  std::vector<T> result(values.size());
  std::vector<float> widened(values.size());
  const std::vector<const void*> sources = {values.data()};
  const std::vector<void*> destinations = {result.data()};
  const auto count = static_cast<int64_t>(values.size());
  ReduceOnHost(Describe<T>(sources, destinations, count, ReduceOp::kMean));
  const std::vector<void*> wide_destinations = {widened.data()};
  HostReduction wide = Describe<T>(sources, wide_destinations, count, ReduceOp::kSum);
  wide.result_dtype = DType::kFloat32;
  ReduceOnHost(wide);
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = ToFloat(values[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(ToFloat(result[i]))) << i;
      EXPECT_TRUE(std::isnan(widened[i])) << i;
    } else {
      ExpectSameBits(result[i], values[i], i);
      ExpectSameBits(widened[i], expected, i);
    }
  }
}

TEST(HostReduceConversionTest, EveryBFloat16Survives) {
  OnEveryInstructionSet(ExpectEveryHalfSurvives<BFloat16>);
}
TEST(HostReduceConversionTest, EveryFloat16Survives) {
  OnEveryInstructionSet(ExpectEveryHalfSurvives<Float16>);
}

// Sums of two halves whose exact result lies on, just above and just below the midpoints between
// halves.
template <typename T>
void ExpectRoundsToNearestEven() {
  std::vector<T> a;
  std::vector<T> b;
  for (uint32_t high = 0; high < (1 << 16); high += 37) {
    for (uint32_t low = 0; low < (1 << 16); low += 1009) {
      a.push_back(T{static_cast<uint16_t>(high)});
      b.push_back(T{static_cast<uint16_t>(low)});
    }
  }
  std::vector<T> result(a.size());
  const std::vector<const void*> sources = {a.data(), b.data()};
  const std::vector<void*> destinations = {result.data()};
  ReduceOnHost(Describe<T>(sources, destinations, static_cast<int64_t>(a.size()), ReduceOp::kSum));
  for (size_t i = 0; i < a.size(); ++i) {
    const float sum = ToFloat(a[i]) + ToFloat(b[i]);
    if (std::isnan(sum)) {
      EXPECT_TRUE(std::isnan(ToFloat(result[i]))) << i;
    } else {
      ExpectSameBits(result[i], FromFloat<T>(sum), i);
    }
  }
}

TEST(HostReduceConversionTest, BFloat16RoundsToNearestEven) {
  OnEveryInstructionSet(ExpectRoundsToNearestEven<BFloat16>);
}
TEST(HostReduceConversionTest, Float16RoundsToNearestEven) {
  OnEveryInstructionSet(ExpectRoundsToNearestEven<Float16>);
}

TEST(HostReduceFloatTest, MeanOfBFloat16IsNotBiased) {
  // 1/3 rounded to bf16 is 0.2 % off; 3 * 171 / 3 must be exactly 171.
  const std::vector<BFloat16> ones(40, ToBFloat16(171.0f));
  std::vector<BFloat16> result(ones.size());
  const std::vector<const void*> sources(3, ones.data());
  const std::vector<void*> destinations = {result.data()};
  ReduceOnHost(Describe<BFloat16>(sources, destinations, 40, ReduceOp::kMean));
  for (BFloat16 value : result) EXPECT_EQ(ToFloat(value), 171.0f);
}

TEST(HostReduceFloatTest, AccumulatesIntoFloats) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean}) {
    const int64_t count = 2500;
    const auto values = RandomRanks<BFloat16>(5, count, 17);
    std::vector<float> result(static_cast<size_t>(count));
    for (size_t i = 0; i < result.size(); ++i) result[i] = 0.37f * static_cast<float>(i);
    const std::vector<float> before = result;
    const auto sources = Pointers(values);
    const std::vector<void*> destinations = {result.data()};
    HostReduction reduction = Describe<BFloat16>(sources, destinations, count, op);
    reduction.result_dtype = DType::kFloat32;
    reduction.accumulate = true;
    ReduceOnHost(reduction);
    for (size_t i = 0; i < result.size(); ++i) {
      std::vector<float> column;
      for (BFloat16 value : Column(values, i)) column.push_back(AsFloat(value));
      // Through memory: a fused multiply-add in the reference would round once instead of twice.
      volatile float reduced = ReferenceReduceFloats(op, column);
      ExpectSameBits(result[i], before[i] + reduced, i);
    }
  }
}

void ExpectMaximumKeepsNaN() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int ranks : {2, 3, 4, 5, 8}) {
    for (int bad = 0; bad < ranks; ++bad) {
      std::vector<std::vector<float>> values(static_cast<size_t>(ranks),
                                             std::vector<float>(21, 1.0f));
      values[static_cast<size_t>(bad)][3] = nan;
      values[static_cast<size_t>(bad)][20] = nan;
      std::vector<float> result(21);
      const auto sources = Pointers(values);
      const std::vector<void*> destinations = {result.data()};
      ReduceOnHost(Describe<float>(sources, destinations, 21, ReduceOp::kMax));
      for (size_t i = 0; i < result.size(); ++i) {
        EXPECT_EQ(std::isnan(result[i]), i == 3 || i == 20) << "rank " << bad << " element " << i;
      }
    }
  }
}

TEST(HostReduceFloatTest, MaximumKeepsNaN) { OnEveryInstructionSet(ExpectMaximumKeepsNaN); }

}  // namespace
}  // namespace zeroth
