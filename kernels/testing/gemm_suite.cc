// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/gemm_suite.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/reference/gemm.h"

namespace zeroth {
namespace {

// A matrix that is columns [left, left + cols) of a wider tensor.
struct Padded {
  int64_t rows;
  int64_t cols;
  int64_t left;
  int64_t width;
  std::vector<float> values;  // [rows, width]

  std::vector<double> Inner() const {
    std::vector<double> inner;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) inner.push_back(values[r * width + left + c]);
    }
    return inner;
  }
};

std::vector<double> Magnitudes(std::vector<double> values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

void Compare(const GemmCase& test, const Padded& a, const Padded& b, const Padded& c,
             const std::vector<float>& bias, const std::vector<float>& actual) {
  const std::vector<double> product = reference::Gemm(
      test.m, test.n, test.k, a.Inner(), test.transpose_a, b.Inner(), test.transpose_b);
  const std::vector<double> magnitude =
      reference::Gemm(test.m, test.n, test.k, Magnitudes(a.Inner()), test.transpose_a,
                      Magnitudes(b.Inner()), test.transpose_b);
  const double epsilon = std::ldexp(1.0, -24);
  for (int64_t row = 0; row < c.rows; ++row) {
    for (int64_t column = 0; column < c.width; ++column) {
      const int64_t at = row * c.width + column;
      const int64_t inner = column - c.left;
      if (inner < 0 || inner >= c.cols) {
        ASSERT_EQ(actual[at], c.values[at]) << "a column beside c was written";
        continue;
      }
      const double added = test.accumulate ? c.values[at] : test.bias ? bias[inner] : 0.0;
      const double expected = product[row * c.cols + inner] + added;
      const double size = magnitude[row * c.cols + inner] + std::abs(added);
      // The slope of both activations is below 1.13; their own rounding is a few units of the
      // argument.
      const double tolerance =
          epsilon * (static_cast<double>(test.k + 4) * 1.13 * size + 8.0 * std::abs(expected));
      ASSERT_NEAR(actual[at], reference::Activate(test.activation, expected), tolerance)
          << "row " << row << ", column " << inner;
    }
  }
}

}  // namespace

std::string GemmCase::ToString() const {
  return absl::StrCat("m = ", m, ", n = ", n, ", k = ", k, transpose_a ? ", a transposed" : "",
                      transpose_b ? ", b transposed" : "", accumulate ? ", accumulated" : "",
                      bias ? ", bias" : "", ", activation ", static_cast<int>(activation),
                      ", padding ", padding);
}

void GemmSuite::Check(const GemmCase& test) {
  SCOPED_TRACE(test.ToString());
  const auto random = [&](int64_t rows, int64_t cols) {
    Padded matrix{rows, cols, RandomSize(0, test.padding), 0, {}};
    matrix.width = matrix.left + cols + RandomSize(0, test.padding);
    matrix.values = RandomNormal(rows * matrix.width);
    return matrix;
  };
  const Padded a = test.transpose_a ? random(test.k, test.m) : random(test.m, test.k);
  const Padded b = test.transpose_b ? random(test.n, test.k) : random(test.k, test.n);
  const Padded c = random(test.m, test.n);
  const std::vector<float> bias = RandomNormal(test.n);
  const Tensor c_tensor = Upload({c.rows, c.width}, c.values);
  GemmArgs args;
  args.a = Matrix(Upload({a.rows, a.width}, a.values)).Columns(a.left, a.cols);
  args.b = Matrix(Upload({b.rows, b.width}, b.values)).Columns(b.left, b.cols);
  args.c = Matrix(c_tensor).Columns(c.left, c.cols);
  args.transpose_a = test.transpose_a;
  args.transpose_b = test.transpose_b;
  args.accumulate = test.accumulate;
  if (test.bias) args.bias = Upload({test.n}, bias);
  args.activation = test.activation;
  const absl::Status status = kernels().Gemm(args);
  ASSERT_TRUE(status.ok()) << status;
  Compare(test, a, b, c, bias, Download(c_tensor));
}

TEST_P(GemmSuite, RandomShapesStridesAndFlags) {
  constexpr Activation kActivations[] = {Activation::kNone, Activation::kGelu, Activation::kSilu};
  for (int i = 0; i < 80; ++i) {
    GemmCase test{RandomSize(1, 70), RandomSize(1, 70), RandomSize(1, 70)};
    test.transpose_a = RandomSize(0, 1) == 1;
    test.transpose_b = RandomSize(0, 1) == 1;
    test.accumulate = RandomSize(0, 3) == 0;
    test.padding = RandomSize(0, 1) * 19;
    if (!test.accumulate) {
      test.bias = RandomSize(0, 1) == 1;
      test.activation = kActivations[RandomSize(0, 2)];
    }
    Check(test);
    if (HasFatalFailure()) return;
  }
}

TEST_P(GemmSuite, SizesBeyondOneTile) {
  Check({257, 193, 401, false, false, false, true, Activation::kGelu, 3});
  Check({129, 515, 67, true, false, true});
  Check({67, 300, 389, false, true});
}

TEST_P(GemmSuite, ZeroSizes) {
  for (const int64_t zero : {0, 1, 2}) {
    for (const bool accumulate : {false, true}) {
      GemmCase test{5, 7, 3};
      (zero == 0 ? test.m : zero == 1 ? test.n : test.k) = 0;
      test.accumulate = accumulate;
      Check(test);
      test.padding = 2;
      test.bias = !accumulate;
      test.activation = accumulate ? Activation::kNone : Activation::kSilu;
      Check(test);
    }
  }
}

TEST_P(GemmSuite, OldContentsOfCDoNotMatterUnlessAccumulated) {
  const Tensor c = Unwritten({3, 5});
  GemmArgs args;
  args.a = Upload({3, 4}, RandomNormal(12));
  args.b = Upload({4, 5}, RandomNormal(20));
  args.c = c;
  ASSERT_TRUE(kernels().Gemm(args).ok());
  for (const float value : Download(c)) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(GemmSuite, SameBitsEveryTime) {
  const Tensor a = Upload({100, 300}, RandomNormal(100 * 300));
  const Tensor b = Upload({300, 90}, RandomNormal(300 * 90));
  std::vector<float> first;
  for (int i = 0; i < 4; ++i) {
    GemmArgs args;
    args.a = a;
    args.b = b;
    const Tensor c = Unwritten({100, 90});
    args.c = c;
    ASSERT_TRUE(kernels().Gemm(args).ok());
    if (i == 0) first = Download(c);
    EXPECT_EQ(Download(c), first);
  }
}

TEST_P(GemmSuite, RefusesWhatDoesNotFit) {
  GemmArgs args;
  args.a = Upload({3, 4}, RandomNormal(12));
  args.b = Upload({5, 6}, RandomNormal(30));
  args.c = Upload({3, 6}, RandomNormal(18));
  ExpectInvalid(kernels().Gemm(args), {"Gemm", "b"});
  args.b = Upload({4, 6}, RandomNormal(24));
  args.bias = Upload({5}, RandomNormal(5));
  ExpectInvalid(kernels().Gemm(args), {"Gemm", "bias", "6"});
  args.bias = Upload({6}, RandomNormal(6));
  args.accumulate = true;
  ExpectInvalid(kernels().Gemm(args), {"Gemm", "accumulate"});
  args.accumulate = false;
  args.c = Upload({2, 6}, RandomNormal(12));
  ExpectInvalid(kernels().Gemm(args), {"Gemm", "c"});
  args.c = UploadTokens({3, 6}, std::vector<int32_t>(18));
  ExpectInvalid(kernels().Gemm(args), {"Gemm", "c", "int32"});
}

}  // namespace zeroth
