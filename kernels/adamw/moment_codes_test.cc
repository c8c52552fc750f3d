// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/moment_codes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/kernels/adamw/testing/low_precision_reference.h"

namespace zeroth {
namespace {

template <class Code>
class MomentCodesScalarTest : public ::testing::Test {
 protected:
  // The largest magnitude of a code, as an integer.
  static constexpr int kLargest = Code::kSigned ? 0x7f : 0xff;
};

using Codes = ::testing::Types<FirstMomentCode, SecondMomentCode>;
TYPED_TEST_SUITE(MomentCodesScalarTest, Codes);

TYPED_TEST(MomentCodesScalarTest, EveryCodeComesBackUnderEveryScale) {
  for (int exponent = TypeParam::kLeastScale; exponent <= TypeParam::kGreatestScale; ++exponent) {
    const float scale = std::ldexp(1.0f, exponent - 127);
    float before = -1;
    for (int code = 0; code <= this->kLargest; ++code) {
      const float value = DecodeMoment<TypeParam>(static_cast<uint8_t>(code), scale);
      ASSERT_GT(value, before) << code;
      before = value;
      ASSERT_EQ(EncodeMoment<TypeParam>(value, scale), code) << "scale 2^" << exponent - 127;
      if (!TypeParam::kSigned) continue;
      ASSERT_EQ(DecodeMoment<TypeParam>(static_cast<uint8_t>(code | 0x80), scale), -value);
      ASSERT_EQ(EncodeMoment<TypeParam>(-value, scale), code | 0x80);
    }
    // The top exponent is the scale's own.
    EXPECT_GE(before, scale);
    EXPECT_LT(before, 2 * scale);
  }
}

// Compared with a search through all codes.
TYPED_TEST(MomentCodesScalarTest, BlocksAreRoundedToNearest) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> block(1 + random() % 128);
    const float size = std::ldexp(1.0f, static_cast<int>(random() % 200) - 110);
    for (float& value : block) {
      value = normal(random) * size * std::ldexp(1.0f, -static_cast<int>(random() % 40));
      if (!TypeParam::kSigned) value = std::abs(value);
    }
    const float scale = MomentScaleOf<TypeParam>(block);
    int exponent = 0;
    ASSERT_EQ(std::frexp(scale, &exponent), 0.5f);
    for (const float value : block) {
      const uint8_t code = EncodeMoment<TypeParam>(value, scale);
      const double error = std::abs(double{DecodeMoment<TypeParam>(code, scale)} - double{value});
      double least = std::numeric_limits<double>::infinity();
      const bool must_be_positive = !TypeParam::kSigned && value > 0;
      for (int other = must_be_positive ? 1 : 0; other < 256; ++other) {
        const float decoded = DecodeMoment<TypeParam>(static_cast<uint8_t>(other), scale);
        least = std::min(least, std::abs(double{decoded} - double{value}));
      }
      ASSERT_EQ(error, least) << value << " under " << scale;
    }
  }
}

TYPED_TEST(MomentCodesScalarTest, WhatIsNotFiniteMakesItsBlockNaN) {
  for (const float bad : {std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), 0x1p127f}) {
    const std::vector<float> block = {1, bad, 0};
    const float scale = MomentScaleOf<TypeParam>(block);
    EXPECT_TRUE(std::isnan(scale));
    EXPECT_TRUE(std::isnan(DecodeMoment<TypeParam>(EncodeMoment<TypeParam>(1.0f, scale), scale)));
  }
}

// The reference that the kernels of every device are compared with.
template <class Code>
reference::EightBitCode Reference() {
  return Code::kSigned ? reference::EightBitCode::FirstMoment()
                       : reference::EightBitCode::SecondMoment();
}

TYPED_TEST(MomentCodesScalarTest, AreTheCodesOfTheKernels) {
  const reference::EightBitCode reference = Reference<TypeParam>();
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  constexpr uint16_t kNearest = 0x8000;
  for (int round = 0; round < 100; ++round) {
    std::vector<float> block(1 + random() % 128);
    for (float& value : block) {
      value = normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 60) - 50);
      if (!TypeParam::kSigned) value = std::abs(value);
    }
    const float scale = MomentScaleOf<TypeParam>(block);
    ASSERT_EQ(scale, reference.Scale(block));
    for (const float value : block) {
      ASSERT_EQ(EncodeMoment<TypeParam>(value, scale), reference.Encode(value, scale, kNearest));
    }
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<uint8_t>(code);
      ASSERT_EQ(DecodeMoment<TypeParam>(byte, scale), reference.Decode(byte, scale));
    }
  }
}

}  // namespace
}  // namespace zeroth
