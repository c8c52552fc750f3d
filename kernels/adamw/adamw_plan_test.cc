// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/adamw_plan.h"

#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth::cuda {
namespace {

// Nothing here reads what pointers point to.
float* At(uint64_t address) { return reinterpret_cast<float*>(address); }

AdamWRangeCall Call(int64_t count, uint64_t address = 0x10000) {
  AdamWRangeCall call;
  call.count = count;
  call.on_device = reinterpret_cast<const AdamWCoefficients*>(uint64_t{0x4000});
  call.param = At(address);
  call.grad = At(address + 0x100000);
  call.m = At(address + 0x200000);
  call.v = At(address + 0x300000);
  return call;
}

AdamWRangeCall FromHost(int64_t count, float step) {
  AdamWRangeCall call = Call(count);
  call.on_device = nullptr;
  call.coefficients.step = step;
  return call;
}

std::vector<AdamWRangeCall> Repeated(size_t times, const AdamWRangeCall& call) {
  return std::vector<AdamWRangeCall>(times, call);
}

TEST(AdamWPlanTest, ATableFitsTheSmallestParameterSpaceAndIsFull) {
  EXPECT_LE(sizeof(AdamWTable), kKernelParameterBytes);
  EXPECT_GT(sizeof(AdamWTable) + sizeof(AdamWRange), kKernelParameterBytes);
  EXPECT_GE(kAdamWRanges, 40);
}

TEST(AdamWPlanTest, NothingIsLaunchedForNothing) {
  EXPECT_TRUE(PlanAdamW({}).empty());
  EXPECT_TRUE(PlanAdamW(Repeated(100, Call(0))).empty());
}

TEST(AdamWPlanTest, AsFewLaunchesAsTheTableAllows) {
  for (const size_t count : {1, kAdamWRanges, kAdamWRanges + 1, 148, 2 * kAdamWRanges}) {
    const std::vector<AdamWLaunch> launches = PlanAdamW(Repeated(count, Call(768)));
    EXPECT_EQ(launches.size(), (count + kAdamWRanges - 1) / kAdamWRanges) << count;
  }
  // GPT-2 with a range for each parameter.
  EXPECT_EQ(PlanAdamW(Repeated(148, Call(768))).size(), 4u);
}

TEST(AdamWPlanTest, TilesAreThoseOfAllRanges) {
  std::vector<AdamWRangeCall> calls = {Call(1), Call(kAdamWTile), Call(kAdamWTile + 1), Call(0),
                                       Call(int64_t{1} << 40)};
  const std::vector<AdamWLaunch> launches = PlanAdamW(calls);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].table.count, 4);
  EXPECT_EQ(launches[0].tiles, 1 + 1 + 2 + (int64_t{1} << 40) / kAdamWTile);
}

TEST(AdamWPlanTest, AnotherTypeOrFactorIsAnotherLaunch) {
  AdamWRangeCall other_param = Call(5);
  other_param.types.param = DType::kBFloat16;
  AdamWRangeCall other_grad = Call(5);
  other_grad.types.grad = DType::kFloat16;
  AdamWRangeCall other_moment = Call(5);
  other_moment.types.moment = DType::kUInt8;
  AdamWRangeCall other_factor = Call(5);
  other_factor.grad_factor = At(0x8000);
  for (const AdamWRangeCall& other : {other_param, other_grad, other_moment, other_factor}) {
    const std::vector<AdamWLaunch> launches =
        PlanAdamW(std::vector<AdamWRangeCall>{Call(5), Call(5), other, Call(0), other, Call(5)});
    ASSERT_EQ(launches.size(), 2u);
    EXPECT_EQ(launches[0].table.count, 3);
    EXPECT_EQ(launches[1].table.count, 2);
    EXPECT_EQ(launches[1].types, other.types);
    EXPECT_EQ(launches[1].table.grad_factor, other.grad_factor);
  }
}

TEST(AdamWPlanTest, EqualScalarsAreOneSetAndNaNIsEqualToItself) {
  std::vector<AdamWRangeCall> calls;
  for (int i = 0; i < kAdamWRanges; ++i) {
    calls.push_back(FromHost(
        5, i % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i % 3)));
  }
  const std::vector<AdamWLaunch> launches = PlanAdamW(calls);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].table.sets, 3);
}

TEST(AdamWPlanTest, MoreSetsThanATableHasAreMoreLaunches) {
  std::vector<AdamWRangeCall> calls;
  for (int i = 0; i < 2 * kAdamWSets + 1; ++i) calls.push_back(FromHost(5, static_cast<float>(i)));
  EXPECT_EQ(PlanAdamW(calls).size(), 3u);
  // Coefficients on the device need no set.
  for (AdamWRangeCall& call : calls) call.on_device = &call.coefficients;
  EXPECT_EQ(PlanAdamW(calls).size(), 1u);
}

TEST(AdamWPlanTest, PacksNeedEveryArrayAlignedAndWholePairsOfDraws) {
  const auto packed = [](const AdamWRangeCall& call) {
    return PlanAdamW(std::vector<AdamWRangeCall>{call})[0].table.ranges[0].packed;
  };
  EXPECT_TRUE(packed(Call(5)));
  for (void* AdamWRangeCall::*array :
       {&AdamWRangeCall::param, &AdamWRangeCall::m, &AdamWRangeCall::v}) {
    AdamWRangeCall call = Call(5);
    call.*array = static_cast<char*>(call.*array) + 4;
    EXPECT_FALSE(packed(call));
  }
  AdamWRangeCall call = Call(5);
  call.grad = At(0x10008);
  EXPECT_FALSE(packed(call));
  call = Call(5);
  call.first_element = 6;
  EXPECT_TRUE(packed(call));
  call.first_element = 7;
  EXPECT_FALSE(packed(call));
}

// Returns the work of a launch on its row `i`.
AdamWRangeCall CallOf(const AdamWLaunch& launch, int i) {
  const AdamWRange& range = launch.table.ranges[i];
  AdamWRangeCall call;
  static_cast<AdamWArrays&>(call) = range;
  if (range.on_device == nullptr) call.coefficients = launch.table.coefficients[range.set];
  call.grad_factor = launch.table.grad_factor;
  call.types = launch.types;
  return call;
}

void ExpectSame(const AdamWRangeCall& a, const AdamWRangeCall& b) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.on_device, b.on_device);
  EXPECT_EQ(std::memcmp(&a.coefficients, &b.coefficients, sizeof(a.coefficients)), 0);
  EXPECT_EQ(a.grad_factor, b.grad_factor);
  EXPECT_EQ(a.types, b.types);
  EXPECT_EQ(a.param, b.param);
  EXPECT_EQ(a.grad, b.grad);
  EXPECT_EQ(a.m, b.m);
  EXPECT_EQ(a.v, b.v);
  EXPECT_EQ(a.m_scale, b.m_scale);
  EXPECT_EQ(a.v_scale, b.v_scale);
  EXPECT_EQ(a.first_element, b.first_element);
}

TEST(AdamWPlanTest, EveryCallIsInOneLaunchOnceAndUnchanged) {
  std::mt19937_64 random(20221);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  for (uint64_t round = 0; round < 200; ++round) {
    std::map<uint64_t, AdamWRangeCall> expected;  // by stream, different for each call
    std::vector<AdamWRangeCall> calls(below(300));
    for (AdamWRangeCall& call : calls) {
      call = below(2) == 0 ? Call(0, 4 * below(1 << 20))
                           : FromHost(0, static_cast<float>(below(1 + round % 9)));
      call.count = below(5) == 0 ? 0 : static_cast<int64_t>(1 + below(100000));
      call.stream = random();
      call.first_element = static_cast<int64_t>(below(1 << 30));
      call.m_scale = At(4 * below(1 << 20));
      call.v_scale = At(4 * below(1 << 20));
      if (below(20) == 0) call.types.moment = DType::kBFloat16;
      if (below(20) == 0) call.grad_factor = At(0x8000);
      if (call.count > 0) expected[call.stream] = call;
    }
    size_t seen = 0;
    for (const AdamWLaunch& launch : PlanAdamW(calls)) {
      ASSERT_GE(launch.table.count, 1);
      ASSERT_LE(launch.table.count, kAdamWRanges);
      ASSERT_LE(launch.table.sets, kAdamWSets);
      for (int i = 0; i < launch.table.count; ++i, ++seen) {
        const AdamWRangeCall call = CallOf(launch, i);
        ASSERT_EQ(expected.count(call.stream), 1u);
        ExpectSame(call, expected[call.stream]);
      }
    }
    EXPECT_EQ(seen, expected.size());
  }
}

}  // namespace
}  // namespace zeroth::cuda
