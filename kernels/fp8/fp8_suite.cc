// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/fp8/fp8.h"
#include "zeroth/kernels/fp8/fp8_format.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

struct Fp8GemmCase {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Fp8Format a_format = Fp8Format::kE4M3;
  Fp8Format b_format = Fp8Format::kE4M3;
  DType c_dtype = DType::kFloat32;
  bool accumulate = false;
  bool bias = false;
  int64_t columns_around = 0;  // foreign columns on each side of c, in steps of kFp8Step
};

class Fp8Suite : public KernelsSuite {
 protected:
  struct Codes {
    std::vector<uint8_t> codes;
    std::vector<uint8_t> transposed;
    std::vector<float> scale;
  };

  Tensor UploadCodes(const Shape& shape, const std::vector<uint8_t>& codes);
  std::vector<uint8_t> DownloadCodes(const Tensor& tensor);
  // Casts columns [begin, begin + cols) of values [rows, width].
  Codes Cast(Fp8Format format, DType dtype, const std::vector<float>& values, int64_t rows,
             int64_t width, int64_t begin, int64_t cols);
  // A row whose largest magnitude is the format's largest number, so that nothing is scaled.
  std::vector<uint8_t> CastUnscaled(Fp8Format format, std::vector<float> values);
  Fp8Operand RandomOperand(Fp8Format format, int64_t rows, int64_t depth, float scale);
  // Compares every element with the definition in double.
  void CheckGemm(const Fp8GemmCase& test);
};

namespace {

constexpr Fp8Format kFormats[] = {Fp8Format::kE4M3, Fp8Format::kE5M2};

// Returns a code's number by the table of the paper: bits in, arithmetic out.
double ValueOf(Fp8Format format, uint8_t code) {
  const bool e4m3 = format == Fp8Format::kE4M3;
  const int exponent = e4m3 ? (code >> 3) & 15 : (code >> 2) & 31;
  const int mantissa = e4m3 ? code & 7 : code & 3;
  const double sign = code >= 128 ? -1 : 1;
  if (e4m3 && exponent == 15 && mantissa == 7) return NAN;
  if (!e4m3 && exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  const int bias = e4m3 ? 7 : 15;
  const double step = std::ldexp(1.0, std::max(exponent, 1) - bias - (e4m3 ? 3 : 2));
  return sign * step * (mantissa + (exponent == 0 ? 0 : (e4m3 ? 8 : 4)));
}

// Returns the code of the nearest finite number; of two that are equally near, the even code.
uint8_t NearestCode(Fp8Format format, float value) {
  if (std::isnan(value)) return 0x7f;
  const double magnitude = std::abs(static_cast<double>(value));
  int best = 0;
  for (int code = 1; code < 128; ++code) {
    const double distance = std::abs(ValueOf(format, static_cast<uint8_t>(code)) - magnitude);
    const double least = std::abs(ValueOf(format, static_cast<uint8_t>(best)) - magnitude);
    // Comparisons with infinity and NaN are false.
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(value) ? 128 : 0));
}

double LargestOf(Fp8Format format) { return format == Fp8Format::kE4M3 ? 448 : 57344; }

std::vector<uint8_t> FiniteCodes(Fp8Format format) {
  std::vector<uint8_t> codes;
  for (int code = 0; code < 256; ++code) {
    if (std::isfinite(ValueOf(format, static_cast<uint8_t>(code)))) {
      codes.push_back(static_cast<uint8_t>(code));
    }
  }
  return codes;
}

}  // namespace

Tensor Fp8Suite::UploadCodes(const Shape& shape, const std::vector<uint8_t>& codes) {
  absl::StatusOr<Tensor> tensor =
      Tensor::FromHost<uint8_t>(device(), shape, codes, MemoryCategory::kActivations);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return *tensor;
}

std::vector<uint8_t> Fp8Suite::DownloadCodes(const Tensor& tensor) {
  absl::StatusOr<std::vector<uint8_t>> codes = tensor.ToHost<uint8_t>();
  EXPECT_TRUE(codes.ok()) << codes.status();
  return *codes;
}

Fp8Suite::Codes Fp8Suite::Cast(Fp8Format format, DType dtype, const std::vector<float>& values,
                               int64_t rows, int64_t width, int64_t begin, int64_t cols) {
  const int64_t depth = PaddedFp8Depth(rows);
  CastFp8Args args;
  args.values = Matrix(Upload({rows, width}, values, dtype)).Columns(begin, cols);
  args.format = format;
  args.codes =
      UploadCodes({rows, cols}, std::vector<uint8_t>(static_cast<size_t>(rows * cols), 0xab));
  args.codes_transposed =
      UploadCodes({cols, depth}, std::vector<uint8_t>(static_cast<size_t>(cols * depth), 0xab));
  args.scale = Unwritten({2});
  EXPECT_EQ(kernels::CastFp8(kernels(), args), absl::OkStatus());
  return {DownloadCodes(args.codes), DownloadCodes(args.codes_transposed), Download(args.scale)};
}

std::vector<uint8_t> Fp8Suite::CastUnscaled(Fp8Format format, std::vector<float> values) {
  values.push_back(static_cast<float>(LargestOf(format)));
  const auto count = static_cast<int64_t>(values.size());
  Codes codes = Cast(format, DType::kFloat32, values, 1, count, 0, count);
  EXPECT_EQ(codes.scale[0], 1.0f);
  codes.codes.pop_back();
  return codes.codes;
}

TEST_P(Fp8Suite, EveryNumberHasItsCode) {
  for (const Fp8Format format : kFormats) {
    const std::vector<uint8_t> codes = FiniteCodes(format);
    for (const int exponent : {0, -20, 30}) {
      for (const DType dtype : kElementTypes) {
        if (dtype == DType::kFloat16 && exponent != 0) continue;  // beyond its range
        std::vector<float> values;
        for (const uint8_t code : codes) {
          values.push_back(static_cast<float>(std::ldexp(ValueOf(format, code), exponent)));
        }
        const auto count = static_cast<int64_t>(values.size());
        const Codes cast = Cast(format, dtype, values, 1, count, 0, count);
        EXPECT_EQ(cast.codes, codes) << DTypeName(dtype) << " times 2^" << exponent;
        EXPECT_EQ(cast.scale[0], std::ldexp(1.0f, exponent));
      }
    }
  }
}

TEST_P(Fp8Suite, RoundsToNearestEven) {
  for (const Fp8Format format : kFormats) {
    std::vector<float> values;
    const std::vector<uint8_t> codes = FiniteCodes(format);
    for (size_t i = 0; i + 1 < codes.size(); ++i) {
      if ((codes[i] ^ codes[i + 1]) >= 128) continue;  // of different signs
      const auto middle =
          static_cast<float>((ValueOf(format, codes[i]) + ValueOf(format, codes[i + 1])) / 2);
      for (const float value :
           {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, middle * 2)}) {
        values.push_back(value);
      }
    }
    for (int i = 0; i < 2000; ++i) {
      const float limit = static_cast<float>(LargestOf(format));
      values.push_back(std::ldexp(RandomNormal(1)[0], static_cast<int>(RandomSize(-24, 15))));
      values.back() = std::clamp(values.back(), -limit, limit);
    }
    values.insert(values.end(), {0.0f, -0.0f, 1e-30f, -1e-42f});
    const std::vector<uint8_t> cast = CastUnscaled(format, values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(int{cast[i]}, int{NearestCode(format, values[i])}) << values[i];
    }
  }
}

TEST_P(Fp8Suite, CastsMatricesWithOneScaleBothWays) {
  for (int i = 0; i < 60; ++i) {
    const Fp8Format format = kFormats[i % 2];
    const DType dtype = kElementTypes[i % 3];
    const int64_t rows = RandomSize(i % 5 == 0 ? 0 : 1, i % 7 == 0 ? 300 : 90);
    const int64_t cols = RandomSize(i % 5 == 1 ? 0 : 1, 150);
    const int64_t before = RandomSize(0, 9);
    const int64_t width = before + cols + RandomSize(0, 9);
    const std::vector<float> values = RoundTo(
        dtype, RandomNormal(rows * width, std::ldexp(1.0f, static_cast<int>(RandomSize(-9, 9)))));
    float amax = 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; ++col) {
        amax = std::max(amax, std::abs(values[static_cast<size_t>(row * width + before + col)]));
      }
    }
    const float multiplier = amax == 0 ? 1.0f : static_cast<float>(LargestOf(format)) / amax;
    const Codes cast = Cast(format, dtype, values, rows, width, before, cols);
    ASSERT_EQ(cast.scale[0], 1.0f / multiplier);
    ASSERT_EQ(cast.scale[1], amax);
    const int64_t depth = (rows + 15) / 16 * 16;
    for (int64_t row = 0; row < depth; ++row) {
      for (int64_t col = 0; col < cols; ++col) {
        const auto transposed = cast.transposed[static_cast<size_t>(col * depth + row)];
        if (row >= rows) {
          ASSERT_EQ(int{transposed}, 0) << "behind the rows";
          continue;
        }
        const float value = values[static_cast<size_t>(row * width + before + col)] * multiplier;
        const uint8_t expected = NearestCode(format, value);
        ASSERT_EQ(int{cast.codes[static_cast<size_t>(row * cols + col)]}, int{expected}) << value;
        ASSERT_EQ(int{transposed}, int{expected}) << value;
      }
    }
  }
}

TEST_P(Fp8Suite, WritesOnlyWhatIsWanted) {
  const std::vector<float> values = RandomNormal(40 * 33);
  const Codes both = Cast(Fp8Format::kE4M3, DType::kFloat32, values, 40, 33, 0, 33);
  CastFp8Args args;
  args.values = Upload({40, 33}, values);
  args.scale = Unwritten({2});
  args.codes = UploadCodes({40, 33}, std::vector<uint8_t>(40 * 33));
  ASSERT_EQ(kernels::CastFp8(kernels(), args), absl::OkStatus());
  EXPECT_EQ(DownloadCodes(args.codes), both.codes);
  args.codes = Tensor();
  args.codes_transposed = UploadCodes({33, 48}, std::vector<uint8_t>(33 * 48));
  ASSERT_EQ(kernels::CastFp8(kernels(), args), absl::OkStatus());
  EXPECT_EQ(DownloadCodes(args.codes_transposed), both.transposed);
}

TEST_P(Fp8Suite, ExtremesOfTheScale) {
  for (const Fp8Format format : kFormats) {
    const Codes zeros = Cast(format, DType::kFloat32, {0, -0.0f, 0}, 1, 3, 0, 3);
    EXPECT_EQ(zeros.codes, (std::vector<uint8_t>{0, 128, 0}));
    EXPECT_EQ(zeros.scale, (std::vector<float>{1, 0}));
    // These values are so small that the multiplier would leave the range of floats.
    const Codes tiny = Cast(format, DType::kFloat32, {1e-38f, 3e-39f}, 1, 2, 0, 2);
    EXPECT_EQ(tiny.scale[0], std::ldexp(1.0f, -126));
    EXPECT_EQ(int{tiny.codes[0]}, int{NearestCode(format, 1e-38f * 0x1p126f)});
    const float huge = std::numeric_limits<float>::max();
    const Codes large = Cast(format, DType::kFloat32, {huge, -huge / 2}, 1, 2, 0, 2);
    EXPECT_EQ(ValueOf(format, large.codes[0]), LargestOf(format));
    EXPECT_EQ(ValueOf(format, large.codes[1]), -LargestOf(format) / 2);
  }
}

TEST_P(Fp8Suite, WhatIsNotFiniteMakesTheScaleNaN) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    for (const DType dtype : kElementTypes) {
      std::vector<float> values = RandomNormal(70 * 5);
      values[200] = bad;
      const Codes cast = Cast(Fp8Format::kE4M3, dtype, values, 70, 5, 0, 5);
      EXPECT_TRUE(std::isnan(cast.scale[0]));
      EXPECT_FALSE(std::isfinite(cast.scale[1]));
      EXPECT_EQ(cast.codes, std::vector<uint8_t>(70 * 5, 0x7f));
    }
  }
}

Fp8Operand Fp8Suite::RandomOperand(Fp8Format format, int64_t rows, int64_t depth, float scale) {
  const std::vector<uint8_t> finite = FiniteCodes(format);
  std::vector<uint8_t> codes(static_cast<size_t>(rows * depth));
  for (uint8_t& code : codes) {
    code = finite[static_cast<size_t>(RandomSize(0, static_cast<int64_t>(finite.size()) - 1))];
  }
  Fp8Operand operand;
  operand.codes = UploadCodes({rows, depth}, codes);
  operand.format = format;
  operand.scale = Upload({2}, {scale, 1.0f});
  return operand;
}

void Fp8Suite::CheckGemm(const Fp8GemmCase& test) {
  const float a_scale = 0.37f;
  const float b_scale = test.b_format == test.a_format ? 0.0021f : 1.7e-5f;
  const int64_t around = test.columns_around * kFp8Step;
  const int64_t width = test.n + 2 * around;
  const std::vector<float> old = RoundTo(test.c_dtype, RandomNormal(test.m * width, 50.0f));
  const std::vector<float> bias = RoundTo(test.c_dtype, RandomNormal(test.n, 50.0f));
  Fp8GemmArgs args;
  args.a = RandomOperand(test.a_format, test.m, test.k, a_scale);
  args.b = RandomOperand(test.b_format, test.n, test.k, b_scale);
  const Tensor c = Upload({test.m, width}, old, test.c_dtype);
  args.c = Matrix(c).Columns(around, test.n);
  args.accumulate = test.accumulate;
  if (test.bias) args.bias = Upload({test.n}, bias, test.c_dtype);
  ASSERT_EQ(kernels::Fp8Gemm(kernels(), args), absl::OkStatus());
  const std::vector<uint8_t> a = DownloadCodes(args.a.codes);
  const std::vector<uint8_t> b = DownloadCodes(args.b.codes);
  const std::vector<float> result = Download(c);
  for (int64_t row = 0; row < test.m; ++row) {
    for (int64_t column = 0; column < width; ++column) {
      const auto at = static_cast<size_t>(row * width + column);
      if (column < around || column >= around + test.n) {
        ASSERT_EQ(result[at], old[at]) << "a foreign column";
        continue;
      }
      const int64_t n = column - around;
      double sum = 0;
      double magnitude = 0;
      double largest = 0;
      for (int64_t k = 0; k < test.k; ++k) {
        const double term = ValueOf(test.a_format, a[static_cast<size_t>(row * test.k + k)]) *
                            ValueOf(test.b_format, b[static_cast<size_t>(n * test.k + k)]);
        sum += term;
        magnitude += std::abs(term);
        largest = std::max(largest, std::abs(term));
      }
      const double scale = static_cast<double>(a_scale) * static_cast<double>(b_scale);
      double expected = sum * scale;
      if (test.accumulate) expected += static_cast<double>(old[at]);
      if (test.bias) expected += static_cast<double>(bias[static_cast<size_t>(n)]);
      // Tensor cores keep fewer bits of a sum of 8-bit products than fp32 has: an H100 drops the
      // bits of each term that lie 13 bits below the largest term.
      const double dropped = std::string(GetParam()) == "cuda"
                                 ? std::ldexp(largest, -12) * static_cast<double>(test.k + 1)
                                 : 1e-4 * magnitude;
      const double bound = dropped * scale + 1e-6 * std::abs(expected);
      ASSERT_NEAR(static_cast<double>(result[at]), expected,
                  bound + HalfUlp(test.c_dtype, expected) * 1.001)
          << "[" << row << ", " << n << "] of [" << test.m << ", " << test.n << "], depth "
          << test.k;
    }
  }
}

TEST_P(Fp8Suite, MatmulsAreThoseOfTheDecodedValues) {
  for (int i = 0; i < 48; ++i) {
    Fp8GemmCase test;
    test.m = RandomSize(i % 9 == 0 ? 0 : 1, 70);
    test.n = RandomSize(i % 11 == 0 ? 0 : 1, 6) * kFp8Step;
    test.k = RandomSize(i % 10 == 0 ? 0 : 1, 9) * kFp8Step;
    if (i % 3 == 1) test.a_format = Fp8Format::kE5M2;
    if (i % 3 == 2) test.b_format = Fp8Format::kE5M2;
    test.c_dtype = kElementTypes[RandomSize(0, 2)];
    test.accumulate = RandomSize(0, 2) == 0;
    test.bias = !test.accumulate && test.c_dtype != DType::kFloat32 && RandomSize(0, 1) == 0;
    test.columns_around = RandomSize(0, 2);
    CheckGemm(test);
  }
}

// Includes codes that no cast writes: infinities, and NaNs of all kinds.
TEST_P(Fp8Suite, EveryCodeTimesOneIsItsNumber) {
  for (const Fp8Format format : kFormats) {
    std::vector<uint8_t> all(256 * 16, 0);
    for (size_t code = 0; code < 256; ++code) all[code * 16] = static_cast<uint8_t>(code);
    Fp8GemmArgs args;
    args.a.codes = UploadCodes({256, 16}, all);
    args.a.format = format;
    args.a.scale = Upload({2}, {1.0f, 0.0f});
    std::vector<uint8_t> ones(16 * 16, 0);
    for (size_t row = 0; row < 16; ++row) ones[row * 16] = 0x38;
    args.b.codes = UploadCodes({16, 16}, ones);
    args.b.scale = args.a.scale;
    const Tensor c = Unwritten({256, 16});
    args.c = c;
    ASSERT_EQ(kernels::Fp8Gemm(kernels(), args), absl::OkStatus());
    const std::vector<float> result = Download(c);
    for (size_t i = 0; i < result.size(); ++i) {
      const double expected = ValueOf(format, static_cast<uint8_t>(i / 16));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(result[i])) << "code " << i / 16;
      } else {
        EXPECT_EQ(static_cast<double>(result[i]), expected) << "code " << i / 16;
      }
    }
  }
}

TEST_P(Fp8Suite, ManyRows) {
  Fp8GemmCase test;
  test.m = 1100;
  test.n = 32;
  test.k = 48;
  test.c_dtype = DType::kBFloat16;
  test.bias = true;
  CheckGemm(test);
}

TEST_P(Fp8Suite, AScaleOfNaNShowsInTheWholeMatmul) {
  Fp8GemmArgs args;
  args.a = RandomOperand(Fp8Format::kE4M3, 5, 16, NAN);
  args.b = RandomOperand(Fp8Format::kE4M3, 16, 16, 1.0f);
  const Tensor c = Upload({5, 16}, std::vector<float>(80, 0.0f));
  args.c = c;
  ASSERT_EQ(kernels::Fp8Gemm(kernels(), args), absl::OkStatus());
  for (const float value : Download(c)) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Fp8Suite, RefusesWhatDoesNotFit) {
  EXPECT_EQ(kernels::SupportsFp8(kernels()), absl::OkStatus());
  CastFp8Args cast;
  cast.values = Upload({3, 4}, RandomNormal(12));
  cast.scale = Unwritten({2});
  ExpectInvalid(kernels::CastFp8(kernels(), cast), {"CastFp8", "codes is undefined"});
  cast.codes = UploadCodes({4, 3}, std::vector<uint8_t>(12));
  ExpectInvalid(kernels::CastFp8(kernels(), cast), {"CastFp8", "codes is [4, 3], expected [3, 4]"});
  cast.codes = UploadCodes({3, 4}, std::vector<uint8_t>(12));
  cast.codes_transposed = UploadCodes({4, 3}, std::vector<uint8_t>(12));
  ExpectInvalid(kernels::CastFp8(kernels(), cast),
                {"codes_transposed is [4, 3], expected [4, 16]"});
  cast.codes_transposed = Tensor();
  cast.scale = Unwritten({1});
  ExpectInvalid(kernels::CastFp8(kernels(), cast), {"scale is [1], expected [2]"});

  Fp8GemmArgs gemm;
  gemm.a = RandomOperand(Fp8Format::kE5M2, 8, 24, 1.0f);
  gemm.b = RandomOperand(Fp8Format::kE5M2, 16, 24, 1.0f);
  const Tensor c = Upload({8, 16}, RandomNormal(128));
  gemm.c = c;
  ExpectInvalid(kernels::Fp8Gemm(kernels(), gemm),
                {"Fp8Gemm", "a.codes is [8, 24]", "steps of 16"});
  gemm.a = RandomOperand(Fp8Format::kE5M2, 8, 32, 1.0f);
  gemm.b = RandomOperand(Fp8Format::kE5M2, 16, 32, 1.0f);
  ExpectInvalid(kernels::Fp8Gemm(kernels(), gemm), {"b.format", "e5m2"});
  gemm.b = RandomOperand(Fp8Format::kE4M3, 8, 32, 1.0f);
  ExpectInvalid(kernels::Fp8Gemm(kernels(), gemm), {"b.codes has 8 rows", "steps of 16"});
  gemm.b = RandomOperand(Fp8Format::kE4M3, 16, 32, 1.0f);
  gemm.bias = Upload({16}, RandomNormal(16));
  ExpectInvalid(kernels::Fp8Gemm(kernels(), gemm), {"bias", "fp32"});
  gemm.bias = Tensor();
  const Tensor wide = Upload({8, 40}, RandomNormal(320));
  gemm.c = Matrix(wide).Columns(0, 16);
  ExpectInvalid(kernels::Fp8Gemm(kernels(), gemm), {"c is at offset 0 with rows 40 apart"});
  gemm.c = c;
  const Tensor bytes = UploadCodes({1 + 8 * 32}, std::vector<uint8_t>(1 + 8 * 32));
  gemm.a.codes = bytes.View(1, Shape({8, 32}));
  ExpectInvalid(kernels::Fp8Gemm(kernels(), gemm),
                {"a.codes does not begin on a multiple of 16 bytes"});
}

INSTANTIATE_TEST_SUITE_P(Devices, Fp8Suite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
