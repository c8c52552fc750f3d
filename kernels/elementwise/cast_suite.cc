// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/elementwise/elementwise.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

class CastSuite : public KernelsSuite {};

namespace {

// Comparable representations: NaNs count, payload and all.
uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }
uint32_t Bits(BFloat16 value) { return value.bits; }
uint32_t Bits(Float16 value) { return value.bits; }

float Widen(float value) { return value; }
float Widen(BFloat16 value) { return ToFloat(value); }
float Widen(Float16 value) { return ToFloat(value); }

template <typename T>
T Narrow(float value);
template <>
float Narrow<float>(float value) {
  return value;
}
template <>
BFloat16 Narrow<BFloat16>(float value) {
  return ToBFloat16(value);
}
template <>
Float16 Narrow<Float16>(float value) {
  return ToFloat16(value);
}

template <typename From, typename To>
void ExpectCast(Device& device, Kernels& kernels, const std::vector<From>& values) {
  const Shape shape{static_cast<int64_t>(values.size())};
  const absl::StatusOr<Tensor> src =
      Tensor::FromHost<From>(device, shape, values, MemoryCategory::kActivations);
  const absl::StatusOr<Tensor> dst =
      Tensor::Zeros(device, shape, DTypeOf<To>::value, MemoryCategory::kActivations);
  ASSERT_TRUE(src.ok() && dst.ok());
  ASSERT_TRUE(kernels::Cast(kernels, *src, *dst).ok());
  const absl::StatusOr<std::vector<To>> actual = dst->template ToHost<To>();
  ASSERT_TRUE(actual.ok());
  for (size_t i = 0; i < values.size(); ++i) {
    // A cast to the same type copies bits, even of signalling NaNs. Otherwise a NaN may become any
    // other NaN.
    if (!std::is_same_v<From, To> && std::isnan(Widen(values[i]))) {
      ASSERT_TRUE(std::isnan(Widen((*actual)[i]))) << "from bits " << Bits(values[i]);
      continue;
    }
    const uint32_t expected =
        std::is_same_v<From, To> ? Bits(values[i]) : Bits(Narrow<To>(Widen(values[i])));
    ASSERT_EQ(Bits((*actual)[i]), expected) << "from bits " << Bits(values[i]);
  }
}

template <typename T>
std::vector<T> All16BitValues() {
  std::vector<T> values(1 << 16);
  for (size_t i = 0; i < values.size(); ++i) values[i].bits = static_cast<uint16_t>(i);
  return values;
}

}  // namespace

TEST_P(CastSuite, EveryHalfWidthValue) {
  ExpectCast<BFloat16, float>(device(), kernels(), All16BitValues<BFloat16>());
  ExpectCast<BFloat16, Float16>(device(), kernels(), All16BitValues<BFloat16>());
  ExpectCast<BFloat16, BFloat16>(device(), kernels(), All16BitValues<BFloat16>());
  ExpectCast<Float16, float>(device(), kernels(), All16BitValues<Float16>());
  ExpectCast<Float16, BFloat16>(device(), kernels(), All16BitValues<Float16>());
}

// Every value that lies on or next to a tie between two neighbours of the narrower type.
TEST_P(CastSuite, FloatsAroundEveryTie) {
  std::vector<float> floats;
  const auto add_around = [&](uint32_t bits) {
    for (const uint32_t near : {bits - 1, bits, bits + 1})
      floats.push_back(std::bit_cast<float>(near));
  };
  for (uint32_t i = 0; i < (1u << 16); ++i) {
    add_around(i << 16);
    add_around(i << 16 | 0x8000u);
  }
  ExpectCast<float, BFloat16>(device(), kernels(), floats);
  floats.clear();
  for (uint32_t i = 0; i < (1u << 16); ++i) {
    const float half = ToFloat(Float16{static_cast<uint16_t>(i)});
    const float next = ToFloat(Float16{static_cast<uint16_t>(i + 1)});
    add_around(Bits(half));
    add_around(Bits(half / 2 + next / 2));
  }
  add_around(Bits(65520.0f));
  add_around(Bits(0x1p-25f));
  ExpectCast<float, Float16>(device(), kernels(), floats);
}

TEST_P(CastSuite, RandomBitsAndOddSizes) {
  for (const int64_t n : {0, 1, 7, 15, 16, 17, 31, 1000}) {
    std::vector<float> floats(static_cast<size_t>(n));
    for (float& value : floats) value = std::bit_cast<float>(static_cast<uint32_t>(random()()));
    ExpectCast<float, BFloat16>(device(), kernels(), floats);
    ExpectCast<float, Float16>(device(), kernels(), floats);
    ExpectCast<float, float>(device(), kernels(), floats);
  }
}

TEST_P(CastSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2}, {1, 2});
  ExpectInvalid(kernels::Cast(kernels(), x, UploadTokens({2}, {1, 2})),
                {"Cast", "dst is int32, expected fp32, bf16 or fp16"});
  ExpectInvalid(kernels::Cast(kernels(), x, Upload({3}, {1, 2, 3})),
                {"Cast", "dst is [3], expected 2 elements"});
}

INSTANTIATE_TEST_SUITE_P(Devices, CastSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
