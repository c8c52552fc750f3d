// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares NF4 with bitsandbytes (tests/testdata/packed/gen.py), GGUF's blocks with the package
// gguf, and int8 with its definition.

#include "zeroth/kernels/packed/packed_format.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace zeroth {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr int64_t kRows = 160;
constexpr int64_t kCols = 128;

template <typename T>
std::vector<T> Fixture(const std::string& name) {
  std::ifstream file("tests/testdata/packed/" + name, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_FALSE(bytes.empty()) << name;
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

absl::StatusOr<PackedMatrix> Pack(const PackedShape& shape, const std::vector<float>& values) {
  return PackMatrix(shape, [&](int64_t begin, absl::Span<float> out) {
    std::copy_n(values.begin() + begin, out.size(), out.begin());
    return absl::OkStatus();
  });
}

TEST(PackedFormat, Nf4HasTheBitsOfBitsAndBytes) {
  const PackedShape shape = {PackedFormat::kNf4, kRows, kCols};
  const absl::StatusOr<PackedMatrix> packed = Pack(shape, Fixture<float>("weight.f32"));
  ASSERT_TRUE(packed.ok()) << packed.status();

  std::vector<uint8_t> codes;
  std::vector<uint8_t> magnitudes;
  for (size_t i = 0; i < packed->codes.size(); ++i) {
    const bool is_magnitude = i % PackedShape::kNf4BlockBytes == PackedShape::kNf4BlockBytes - 1;
    (is_magnitude ? magnitudes : codes).push_back(packed->codes[i]);
  }
  EXPECT_THAT(codes, ElementsAreArray(Fixture<uint8_t>("nf4_codes.u8")));
  EXPECT_THAT(magnitudes, ElementsAreArray(Fixture<uint8_t>("nf4_magnitudes.u8")));
  EXPECT_THAT(packed->scales, ElementsAreArray(Fixture<uint8_t>("nf4_scales.f32")));

  const absl::StatusOr<std::vector<float>> restored =
      UnpackMatrix(shape, packed->codes, packed->scales);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(*restored, Fixture<float>("nf4_restored.f32"));
}

// The block's largest value is 1, so its scale is 1. A value on the border between two codes gets
// the lower one; its neighbouring floats get the codes of their sides.
TEST(PackedFormat, AValueOnABorderHasTheLowerCode) {
  const PackedShape shape = {PackedFormat::kNf4, 1, 64};
  std::vector<float> weight(64, 1.0f);
  std::vector<int> expected(64, 15);
  for (int code = 0; code < 15; ++code) {
    const auto at = static_cast<size_t>(4 * code);
    const auto of_code = static_cast<size_t>(code);
    const float border = (kNf4Values[of_code] + kNf4Values[of_code + 1]) / 2.0f;
    weight[at] = std::nextafter(border, -2.0f);
    weight[at + 1] = border;
    weight[at + 2] = std::nextafter(border, 2.0f);
    expected[at] = expected[at + 1] = code;
    expected[at + 2] = code + 1;
  }
  const absl::StatusOr<PackedMatrix> packed = Pack(shape, weight);
  ASSERT_TRUE(packed.ok()) << packed.status();
  for (size_t i = 0; i < 64; ++i) {
    const int both = packed->codes[i / 2];
    EXPECT_EQ(i % 2 == 0 ? both >> 4 : both & 15, expected[i]) << i;
  }
}

TEST(PackedFormat, MagnitudesHaveTheValuesOfBitsAndBytes) {
  const std::vector<float> map = Fixture<float>("nf4_map.f32");
  ASSERT_EQ(map.size(), 256u);
  EXPECT_THAT(map, ElementsAreArray(kDynamicValues));
}

TEST(PackedFormat, Int8RowsComeBackWithinHalfAScale) {
  const PackedShape shape = {PackedFormat::kInt8, kRows, kCols};
  std::vector<float> weight = Fixture<float>("weight.f32");
  std::fill_n(weight.begin() + 3 * kCols, kCols, 0.0f);
  // Rows whose scale would be subnormal, or its inverse infinite.
  for (int64_t i = 0; i < kCols; ++i) {
    const float sign = i % 2 == 0 ? 1.0f : -1.0f;
    weight[static_cast<size_t>(4 * kCols + i)] = sign * 1e-37f;
    weight[static_cast<size_t>(5 * kCols + i)] = sign * 1e-42f;
  }
  const absl::StatusOr<PackedMatrix> packed = Pack(shape, weight);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const absl::StatusOr<std::vector<float>> restored =
      UnpackMatrix(shape, packed->codes, packed->scales);
  ASSERT_TRUE(restored.ok()) << restored.status();
  for (int64_t row = 0; row < kRows; ++row) {
    const auto first = weight.begin() + row * kCols;
    double largest = 0;
    for (auto it = first; it != first + kCols; ++it)
      largest = std::max<double>(largest, std::abs(*it));
    for (int64_t i = 0; i < kCols; ++i) {
      const double error = std::abs(
          static_cast<double>((*restored)[static_cast<size_t>(row * kCols + i)]) - first[i]);
      EXPECT_LE(error, std::max<double>(largest / 127, FLT_MIN) / 2 * (1 + 1e-5))
          << row << ", " << i;
    }
  }
}

// Against what the package gguf dequantises (tests/testdata/packed/gguf_gen.py), which are random
// bytes, scales of 0 and subnormal ones among them.
TEST(PackedFormat, BlocksOfGgufHaveTheBitsOfThePackage) {
  for (const PackedFormat format : kGgufFormats) {
    SCOPED_TRACE(PackedFormatName(format));
    const std::string name = "gguf_" + std::string(PackedFormatName(format));
    const std::vector<uint8_t> blocks = Fixture<uint8_t>(name + ".u8");
    const PackedShape one = {format};
    const PackedShape shape = {format, 3, 4 * one.block()};
    const absl::StatusOr<std::vector<float>> values = UnpackMatrix(shape, blocks, {});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(*values, Fixture<float>(name + ".f32"));
    EXPECT_THAT(std::string(Pack(shape, *values).status().message()),
                HasSubstr("whose blocks are those of a GGUF file"));
  }
}

TEST(PackedFormat, TakesABitMoreThanHalfAByte) {
  const PackedShape shape = {PackedFormat::kNf4, 4096, 4096};
  const int64_t bytes = shape.rows * shape.CodeBytes(shape.cols) + shape.scale_bytes();
  EXPECT_EQ(bytes, 4096 * 4096 / 64 * 33 + (1024 + 1) * 4);
}

TEST(PackedFormat, NamesOfCodesEndInTheFormat) {
  for (const PackedFormat format : kPackedFormats) {
    const std::string name = "mlp.up_proj.weight_" + std::string(PackedFormatName(format));
    EXPECT_EQ(FormatOfCodes(name), format);
    EXPECT_EQ(FormatOfCodes(name + "_scales"), std::nullopt);
  }
  EXPECT_EQ(FormatOfCodes("mlp.up_proj.weight"), std::nullopt);
}

TEST(PackedFormat, RefusesWhatDoesNotFit) {
  EXPECT_THAT(std::string(ValidatePackedShape({PackedFormat::kNf4, 2, 96}).message()),
              HasSubstr("rows of 96 values cannot be packed as nf4, in blocks of 64"));
  EXPECT_TRUE(ValidatePackedShape({PackedFormat::kInt8, 2, 96}).ok());
  EXPECT_FALSE(ValidatePackedShape({PackedFormat::kNone, 2, 64}).ok());

  std::vector<float> weight(2 * 64, 1.0f);
  weight[70] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(std::string(Pack({PackedFormat::kNf4, 2, 64}, weight).status().message()),
              HasSubstr("element 70 is inf"));
  const std::vector<uint8_t> bytes(5);
  EXPECT_THAT(
      std::string(UnpackMatrix({PackedFormat::kInt8, 2, 64}, bytes, bytes).status().message()),
      HasSubstr("has 5 bytes of codes and 5 of scales, expected 128 and 8"));
}

}  // namespace
}  // namespace zeroth
