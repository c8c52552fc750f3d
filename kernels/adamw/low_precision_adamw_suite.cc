// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests AdamW on bf16 parameters, and on moments in bf16 and in 8 bits. The result must have the
// bits of the same kernels' fp32 step on the same values, rounded by the references.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/adamw/rounding.h"
#include "zeroth/kernels/adamw/testing/adamw_state.h"
#include "zeroth/kernels/adamw/testing/low_precision_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

class LowPrecisionAdamWSuite : public AdamWStateSuite {};

namespace {

using Types = AdamWTypes;
using State = AdamWState;

std::vector<float> RoundToBFloat16(const std::vector<float>& values,
                                   const std::vector<uint16_t>& draws) {
  std::vector<float> rounded;
  for (size_t i = 0; i < values.size(); ++i) {
    rounded.push_back(reference::RoundToBFloat16(values[i], draws[i]));
  }
  return rounded;
}

// Stores the result of an fp32 step in the given types, each element rounded by its own draws.
void RoundBy(const Types& types, const std::vector<RoundingBits>& draws, State& state) {
  std::vector<uint16_t> m, v, param;
  for (const RoundingBits& bits : draws) {
    m.push_back(bits.first_moment);
    v.push_back(bits.second_moment);
    param.push_back(bits.param);
  }
  if (types.param == DType::kBFloat16) state.param = RoundToBFloat16(state.param, param);
  if (types.moment == DType::kBFloat16) {
    state.m = RoundToBFloat16(state.m, m);
    state.v = RoundToBFloat16(state.v, v);
  }
  if (types.moment == DType::kUInt8) EncodeMoments(state, m, v);
}

// Rounds by the draws that `args` name.
void Round(const Types& types, const AdamWArgs& args, State& state) {
  std::vector<RoundingBits> draws;
  const RoundingKey key = MakeRoundingKey(args.seed, args.step);
  for (int64_t i = 0; i < state.count(); ++i) {
    draws.push_back(RoundingBitsOf(key, args.stream, args.first_element + i));
  }
  RoundBy(types, draws, state);
}

}  // namespace

TEST_P(LowPrecisionAdamWSuite, IsTheFloatStepRounded) {
  for (const Types& types : AllAdamWTypes()) {
    SCOPED_TRACE(types.ToString());
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{128}, RandomSize(2, 127),
                                RandomSize(129, 700), int64_t{1024}}) {
      SCOPED_TRACE(absl::StrCat(count, " elements"));
      const AdamWArgs scalars = RandomScalars(types, count % 2 == 1);
      const State start = RandomState(types, count);
      State expected = Step({DType::kFloat32, types.grad, DType::kFloat32}, start, scalars);
      Round(types, scalars, expected);
      ExpectSameBits(Step(types, start, scalars), expected);
    }
  }
}

// Several steps from zeros, as training starts: zeros are legal scales.
TEST_P(LowPrecisionAdamWSuite, StartsFromZeroMoments) {
  for (const Types& types : AllAdamWTypes()) {
    SCOPED_TRACE(types.ToString());
    constexpr int64_t kCount = 200;
    State state = RandomState(types, kCount);
    state.m.assign(kCount, 0.0f);
    state.v.assign(kCount, 0.0f);
    if (types.moment == DType::kUInt8) {
      state.m_codes.assign(kCount, 0);
      state.v_codes.assign(kCount, 0);
      state.m_scales.assign(2, 0.0f);
      state.v_scales.assign(2, 0.0f);
    }
    AdamWArgs scalars = RandomScalars(types, false);
    for (int step = 0; step < 3; ++step) {
      ++scalars.step;
      State expected = Step({DType::kFloat32, types.grad, DType::kFloat32}, state, scalars);
      Round(types, scalars, expected);
      state = Step(types, state, scalars);
      ExpectSameBits(state, expected);
    }
  }
}

// A parameter may be cut among ranks at any place where a block begins.
TEST_P(LowPrecisionAdamWSuite, CutsDoNotShow) {
  for (const Types& types : AllAdamWTypes()) {
    SCOPED_TRACE(types.ToString());
    constexpr int64_t kCount = 1237;
    const int64_t unit = types.moment == DType::kUInt8 ? kMomentBlock : 1;
    const State start = RandomState(types, kCount);
    const AdamWArgs scalars = RandomScalars(types, true);
    const State whole = Step(types, start, scalars);
    for (int round = 0; round < 4; ++round) {
      const AdamWArgs all = UploadState(types, start, scalars);
      for (int64_t begin = 0; begin < kCount;) {
        const int64_t count = std::min(kCount - begin, unit * RandomSize(1, 600 / unit));
        AdamWArgs piece = all;
        for (Tensor* tensor : {&piece.param, &piece.grad, &piece.m, &piece.v}) {
          *tensor = tensor->View(begin, Shape({count}));
        }
        if (types.moment == DType::kUInt8) {
          const Shape blocks({(count + kMomentBlock - 1) / kMomentBlock});
          piece.m_scale = all.m_scale.View(begin / kMomentBlock, blocks);
          piece.v_scale = all.v_scale.View(begin / kMomentBlock, blocks);
        }
        piece.first_element += begin;
        ASSERT_TRUE(kernels::AdamW(kernels(), piece).ok());
        begin += count;
      }
      ExpectSameBits(DownloadState(all), whole);
    }
  }
}

// One update, many draws: the stored value is one of two neighbours, and its mean is the exact
// value.
TEST_P(LowPrecisionAdamWSuite, RoundingHasNoBias) {
  constexpr int64_t kCount = 256;
  constexpr int kDraws = 2000;
  for (const DType moment : {DType::kBFloat16, DType::kUInt8}) {
    const Types types = {DType::kBFloat16, DType::kFloat32, moment};
    SCOPED_TRACE(types.ToString());
    const State start = RandomState(types, kCount);
    AdamWArgs scalars = RandomScalars(types, false);
    const State exact = Step({DType::kFloat32, DType::kFloat32, DType::kFloat32}, start, scalars);
    State below = exact;
    State above = exact;
    RoundBy(types, std::vector<RoundingBits>(kCount), below);
    RoundBy(types, std::vector<RoundingBits>(kCount, {0xffff, 0xffff, 0xffff}), above);
    std::vector<State> drawn;
    for (int draw = 0; draw < kDraws; ++draw) {
      ++scalars.step;
      drawn.push_back(Step(types, start, scalars));
    }
    // `least`: smaller values get the least code above zero, on purpose. `unseen`: the largest
    // value that 16 bits of draws cannot tell from zero.
    const auto expect = [&](std::vector<float> State::*field, const char* what, float least,
                            float unseen) {
      int rounded = 0;
      for (size_t i = 0; i < kCount; ++i) {
        const double value = static_cast<double>((exact.*field)[i]);
        if (std::abs(value) < static_cast<double>(least)) continue;
        const float low = (below.*field)[i];
        const float high = (above.*field)[i];
        double sum = 0;
        for (const State& state : drawn) {
          const float stored = (state.*field)[i];
          ASSERT_TRUE(stored == low || stored == high) << what << ", element " << i;
          sum += static_cast<double>(stored);
        }
        // A choice between two has a standard deviation of at most half their distance.
        const double gap = std::abs(static_cast<double>(high) - static_cast<double>(low));
        rounded += gap > 0 ? 1 : 0;
        ASSERT_NEAR(sum / kDraws, value,
                    gap * (6 * 0.5 / std::sqrt(kDraws) + 0x1p-16) + static_cast<double>(unseen))
            << what << ", element " << i;
      }
      EXPECT_GT(rounded, kCount / 2) << what;
    };
    const auto largest = [&](const std::vector<float>& scales) {
      return moment == DType::kUInt8 ? *std::max_element(scales.begin(), scales.end()) : 0.0f;
    };
    expect(&State::param, "param", 0.0f, 0.0f);
    expect(&State::m, "m", 0.0f, largest(below.m_scales) * 0x1p-33f);
    expect(&State::v, "v", largest(below.v_scales) * 0x1p-33f, 0.0f);
  }
}

// Rounded to nearest, a second moment at beta2 = 0.999 would stay where it is: a thousandth of the
// distance is less than half a step.
TEST_P(LowPrecisionAdamWSuite, SlowMomentsArriveAllTheSame) {
  constexpr int64_t kCount = 256;
  constexpr double kBeta2 = 0.999;
  constexpr int kSteps = 4000;
  for (const DType moment : {DType::kBFloat16, DType::kUInt8}) {
    SCOPED_TRACE(DTypeName(moment));
    const Types types = {DType::kFloat32, DType::kFloat32, moment};
    State state = RandomState(types, kCount);
    state.grad.assign(kCount, 0.5f);
    AdamWArgs args = UploadState(types, state, AdamWArgs());
    args.beta2 = kBeta2;
    for (args.step = 1; args.step <= kSteps; ++args.step) {
      ASSERT_TRUE(kernels::AdamW(kernels(), args).ok());
    }
    double mean = 0;
    for (const float value : DownloadState(args).v) {
      EXPECT_NEAR(value, 0.25, 0.25 * 0.3);
      mean += static_cast<double>(value) / kCount;
    }
    EXPECT_NEAR(mean, 0.25, 0.25 * 0.03);
  }
}

TEST_P(LowPrecisionAdamWSuite, CoefficientsOnTheDeviceBringTheDraws) {
  const Types types = {DType::kBFloat16, DType::kBFloat16, DType::kBFloat16};
  const State start = RandomState(types, 333);
  const AdamWArgs scalars = RandomScalars(types, true);
  const AdamWCoefficients derived = DeriveAdamWCoefficients(scalars);
  std::vector<float> words(kAdamWCoefficients);
  std::memcpy(words.data(), &derived, sizeof(derived));
  AdamWArgs recorded = scalars;
  recorded.seed = 0;
  recorded.step = 0;
  recorded.coefficients = Upload(Shape({kAdamWCoefficients}), words);
  ExpectSameBits(Step(types, start, recorded), Step(types, start, scalars));
  AdamWArgs next = scalars;
  ++next.step;
  EXPECT_NE(Step(types, start, next).m, Step(types, start, scalars).m);
  next = scalars;
  ++next.stream;
  EXPECT_NE(Step(types, start, next).m, Step(types, start, scalars).m);
  next = scalars;
  ++next.seed;
  EXPECT_NE(Step(types, start, next).m, Step(types, start, scalars).m);
}

// A moment that is not finite makes its block NaN, which the next step sees, and no other block.
TEST_P(LowPrecisionAdamWSuite, WhatIsNotFiniteShowsInItsBlock) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 3e38f}) {
    const Types types = {DType::kFloat32, DType::kFloat32, DType::kUInt8};
    State state = RandomState(types, 300);
    state.grad[140] = bad;
    AdamWArgs scalars = RandomScalars(types, false);
    scalars.grad_scale = 1;
    state = Step(types, state, scalars);
    EXPECT_FALSE(std::isnan(state.v_scales[0]));
    EXPECT_TRUE(std::isnan(state.v_scales[1]));
    EXPECT_FALSE(std::isnan(state.v_scales[2]));
    state.grad.assign(300, 1e-3f);
    state = Step(types, state, scalars);
    for (size_t i = 0; i < 300; ++i) {
      EXPECT_EQ(std::isnan(state.param[i]), i >= 128 && i < 256) << i;
    }
  }
  const Types types = {DType::kBFloat16, DType::kFloat32, DType::kBFloat16};
  State state = RandomState(types, 40);
  state.grad[17] = std::numeric_limits<float>::quiet_NaN();
  state = Step(types, state, RandomScalars(types, true));
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(std::isnan(state.param[i]), i == 17) << i;
    EXPECT_EQ(std::isnan(state.v[i]), i == 17) << i;
  }
}

// If a second moment underflowed to 0 next to a large one, the update would blow up.
TEST_P(LowPrecisionAdamWSuite, SmallSecondMomentsBesideLargeOnesAreNotLost) {
  const Types types = {DType::kFloat32, DType::kFloat32, DType::kUInt8};
  State state = RandomState(types, 128);
  for (size_t i = 0; i < 128; ++i) state.grad[i] = std::ldexp(1.0f, -static_cast<int>(i % 40));
  state.grad[5] = 0.0f;
  state.m.assign(128, 0.0f);
  state.m_codes.assign(128, 0);
  state.v.assign(128, 0.0f);
  state.v_codes.assign(128, 0);
  AdamWArgs scalars = RandomScalars(types, false);
  state = Step(types, state, scalars);
  for (size_t i = 0; i < 128; ++i) {
    if (i == 5) {
      EXPECT_EQ(state.v[i], 0.0f);
    } else {
      EXPECT_GT(state.v[i], 0.0f) << i;
    }
  }
}

TEST_P(LowPrecisionAdamWSuite, RefusesStatesThatDoNotFit) {
  const Types types = {DType::kBFloat16, DType::kFloat32, DType::kUInt8};
  AdamWArgs args = UploadState(types, RandomState(types, 200), AdamWArgs());
  ASSERT_TRUE(kernels::AdamW(kernels(), args).ok());
  AdamWArgs wrong = args;
  wrong.m_scale = args.m_scale.View(0, Shape({1}));
  ExpectInvalid(kernels::AdamW(kernels(), wrong), {"AdamW", "m_scale is [1], expected 2 elements"});
  wrong = args;
  wrong.v_scale = Tensor();
  ExpectInvalid(kernels::AdamW(kernels(), wrong), {"AdamW", "v_scale is undefined"});
  wrong = args;
  wrong.v = Upload(Shape({200}), std::vector<float>(200, 0.0f));
  ExpectInvalid(kernels::AdamW(kernels(), wrong), {"AdamW", "v is fp32, expected uint8"});
  wrong = args;
  wrong.first_element = 64;
  ExpectInvalid(kernels::AdamW(kernels(), wrong),
                {"AdamW", "first_element is 64, expected a multiple of 128"});
  wrong = args;
  wrong.m = Upload(Shape({200}), std::vector<float>(200, 0.0f), DType::kBFloat16);
  wrong.v = wrong.m;
  ExpectInvalid(kernels::AdamW(kernels(), wrong), {"AdamW", "m_scale", "belong to uint8 moments"});
  wrong.m_scale = Tensor();
  wrong.v_scale = Tensor();
  wrong.first_element = -1;
  ExpectInvalid(kernels::AdamW(kernels(), wrong), {"AdamW", "first_element is -1", "at least 0"});
  wrong = args;
  wrong.param = Upload(Shape({200}), std::vector<float>(200, 0.0f), DType::kFloat16);
  ExpectInvalid(kernels::AdamW(kernels(), wrong),
                {"AdamW", "param is fp16, expected fp32 or bf16"});
}

INSTANTIATE_TEST_SUITE_P(Devices, LowPrecisionAdamWSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
