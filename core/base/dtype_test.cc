// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace zeroth {
namespace {

constexpr DType kAll[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                          DType::kInt32,   DType::kInt64,    DType::kUInt8};

TEST(DTypeTest, SizesAndKinds) {
  EXPECT_EQ(SizeOf(DType::kFloat32), sizeof(float));
  EXPECT_EQ(SizeOf(DType::kBFloat16), sizeof(BFloat16));
  EXPECT_EQ(SizeOf(DType::kFloat16), sizeof(Float16));
  EXPECT_EQ(SizeOf(DType::kInt32), sizeof(int32_t));
  EXPECT_EQ(SizeOf(DType::kInt64), sizeof(int64_t));
  EXPECT_EQ(SizeOf(DType::kUInt8), sizeof(uint8_t));
  EXPECT_TRUE(IsFloatingPoint(DType::kFloat32));
  EXPECT_TRUE(IsFloatingPoint(DType::kBFloat16));
  EXPECT_TRUE(IsFloatingPoint(DType::kFloat16));
  EXPECT_FALSE(IsFloatingPoint(DType::kInt32));
  EXPECT_FALSE(IsFloatingPoint(DType::kInt64));
  EXPECT_FALSE(IsFloatingPoint(DType::kUInt8));
}

TEST(DTypeTest, NamesParseBack) {
  for (const DType dtype : kAll) {
    const auto parsed = ParseDType(DTypeName(dtype));
    ASSERT_TRUE(parsed.ok()) << DTypeName(dtype);
    EXPECT_EQ(*parsed, dtype);
  }
  EXPECT_EQ(DTypeName(DType::kBFloat16), "bf16");
}

TEST(DTypeTest, UnknownNameListsTheAllowedOnes) {
  const absl::Status status = ParseDType("float8").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "unknown dtype 'float8'; expected one of: fp32, bf16, fp16, int32, int64, uint8");
  EXPECT_FALSE(ParseDType("").ok());
  EXPECT_FALSE(ParseDType("FP32").ok());
}

// A 16-bit format described by its widths; decodes and rounds in double arithmetic, sharing nothing
// with the code under test.
struct Format {
  int exponent_bits;
  int mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }

  double Decode(uint16_t bits) const {
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) {
      return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
    }
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return sign * std::ldexp(1.0 + std::ldexp(mantissa, -mantissa_bits), exponent - bias());
  }

  // The value of the nearest number of the format, ties to even, infinity beyond the largest.
  double Nearest(double value) const {
    if (std::isnan(value) || std::isinf(value) || value == 0.0) return value;
    const int exponent = std::max(std::ilogb(value), 1 - bias());
    const double unit = std::ldexp(1.0, exponent - mantissa_bits);
    const double rounded = std::nearbyint(value / unit) * unit;  // the default mode is ties to even
    const double largest = std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), bias());
    if (std::abs(rounded) <= largest) return rounded;
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  }
};

constexpr Format kBFloat16Format{8, 7};
constexpr Format kFloat16Format{5, 10};

// Equal in value and sign; a NaN is a quiet NaN of the same sign.
template <typename Half>
void ExpectRounds(float value, Half half, const Format& format) {
  const double expected = format.Nearest(static_cast<double>(value));
  const double actual = format.Decode(half.bits);
  ASSERT_EQ((half.bits & 0x8000) != 0, std::signbit(value)) << value;
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(actual)) << std::hex << half.bits;
    ASSERT_NE(half.bits & (1 << (format.mantissa_bits - 1)), 0) << "signalling NaN";
  } else {
    ASSERT_EQ(actual, expected) << std::hexfloat << value;
  }
}

// Every number of both formats, the midpoints between neighbours, and the floats around each: the
// places where rounding could be wrong.
std::vector<float> InterestingFloats() {
  std::vector<float> values;
  const auto add_with_neighbours = [&values](float value) {
    values.push_back(value);
    if (!std::isfinite(value)) return;
    values.push_back(std::nextafter(value, std::numeric_limits<float>::infinity()));
    values.push_back(std::nextafter(value, -std::numeric_limits<float>::infinity()));
  };
  for (const Format& format : {kBFloat16Format, kFloat16Format}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const double value = format.Decode(static_cast<uint16_t>(bits));
      add_with_neighbours(static_cast<float>(value));
      const double next = format.Decode(static_cast<uint16_t>(bits + 1));
      if (std::isfinite(value) && std::isfinite(next)) {
        add_with_neighbours(static_cast<float>((value + next) / 2));
      }
    }
  }
  for (const float value :
       {65504.0f, 65519.0f, 65520.0f, 65536.0f, 3.3961775e38f, std::numeric_limits<float>::max(),
        0x1p-24f, 0x1p-25f, 0x1.8p-25f, 0x1p-149f, 0x1p-126f}) {
    add_with_neighbours(value);
    add_with_neighbours(-value);
  }
  // NaNs: quiet, signalling, and with a payload that truncation to 16 bits loses.
  for (const uint32_t bits :
       {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0x7f808000u}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

TEST(BFloat16Test, DecodesEveryPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 half{static_cast<uint16_t>(bits)};
    const double expected = kBFloat16Format.Decode(half.bits);
    const float actual = ToFloat(half);
    ASSERT_EQ(std::signbit(actual), (bits & 0x8000) != 0);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual));
    } else {
      ASSERT_EQ(static_cast<double>(actual), expected) << std::hex << bits;
      ASSERT_EQ(ToBFloat16(actual).bits, bits) << "does not round-trip";
    }
  }
}

TEST(Float16Test, DecodesEveryPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const double expected = kFloat16Format.Decode(half.bits);
    const float actual = ToFloat(half);
    ASSERT_EQ(std::signbit(actual), (bits & 0x8000) != 0);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual));
    } else {
      ASSERT_EQ(static_cast<double>(actual), expected) << std::hex << bits;
      ASSERT_EQ(ToFloat16(actual).bits, bits) << "does not round-trip";
    }
  }
}

TEST(RoundingTest, InterestingFloats) {
  for (const float value : InterestingFloats()) {
    ASSERT_NO_FATAL_FAILURE(ExpectRounds(value, ToBFloat16(value), kBFloat16Format));
    ASSERT_NO_FATAL_FAILURE(ExpectRounds(value, ToFloat16(value), kFloat16Format));
  }
}

TEST(RoundingTest, RandomFloats) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const float any = std::bit_cast<float>(static_cast<uint32_t>(random()));
    ASSERT_NO_FATAL_FAILURE(ExpectRounds(any, ToBFloat16(any), kBFloat16Format));
    ASSERT_NO_FATAL_FAILURE(ExpectRounds(any, ToFloat16(any), kFloat16Format));
    // Most floats are outside of fp16's range, so draw some inside.
    const float near_one = std::ldexp(any - std::floor(any), static_cast<int>(random() % 45) - 28);
    ASSERT_NO_FATAL_FAILURE(ExpectRounds(near_one, ToFloat16(near_one), kFloat16Format));
  }
}

TEST(RoundingTest, KnownValues) {
  EXPECT_EQ(ToBFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(ToBFloat16(1.00390625f).bits, 0x3f80);  // a tie goes to the even neighbour below
  EXPECT_EQ(ToBFloat16(1.01171875f).bits, 0x3f82);  // and above
  EXPECT_EQ(ToBFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(ToBFloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(ToFloat16(1.0f).bits, 0x3c00);
  EXPECT_EQ(ToFloat16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(ToFloat16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(ToFloat16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(ToFloat16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(ToFloat16(-0x1.8p-25f).bits, 0x8001);
}

}  // namespace
}  // namespace zeroth
