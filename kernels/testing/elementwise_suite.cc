// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Additions: elementwise and down columns.

#include "zeroth/kernels/testing/elementwise_suite.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

TEST_P(ElementwiseSuite, AddAndScaleAreTheFloatOperations) {
  for (const DType dtype : kElementTypes) {
    for (const int64_t n : {0, 1, 5, 16, 31, 100, 40000}) {
      const std::vector<float> a = RoundTo(dtype, RandomNormal(n));
      const std::vector<float> b = RoundTo(dtype, RandomNormal(n));
      std::vector<float> sum;
      std::vector<float> scaled;
      for (size_t i = 0; i < a.size(); ++i) {
        sum.push_back(a[i] + b[i]);
        scaled.push_back(a[i] * 0.3f);
      }
      sum = RoundTo(dtype, sum);
      const Tensor x = Upload({n}, a, dtype);
      const Tensor y = Upload({n}, b, dtype);
      const Tensor out = Unwritten({n}, dtype);
      ASSERT_TRUE(kernels().Add(x, y, out).ok());
      EXPECT_EQ(Download(out), sum);
      ASSERT_TRUE(kernels().Add(x, y, y).ok());
      EXPECT_EQ(Download(y), sum);
      ASSERT_TRUE(kernels().Scale(x, 0.3f).ok());
      EXPECT_EQ(Download(x), RoundTo(dtype, scaled));
    }
  }
}

TEST_P(ElementwiseSuite, LerpIsThreeFloatOperationsOnEachElement) {
  for (const DType dtype : kElementTypes) {
    for (const int64_t n : {0, 1, 5, 16, 31, 100, 40000}) {
      for (const float weight : {0.0f, 0.3f, 1.0f, 1e-4f}) {
        const std::vector<float> from = RoundTo(dtype, RandomNormal(n));
        const std::vector<float> to = RoundTo(dtype, RandomNormal(n));
        std::vector<float> expected;
        for (size_t i = 0; i < from.size(); ++i) {
          const float difference = to[i] - from[i];
          const float part = weight * difference;
          expected.push_back(from[i] + part);
        }
        const Tensor x = Upload({n}, from, dtype);
        const Tensor target = Upload({n}, to, dtype);
        ASSERT_TRUE(kernels().Lerp(x, target, weight).ok());
        EXPECT_EQ(Download(x), RoundTo(dtype, expected));
        EXPECT_EQ(Download(target), to);
      }
    }
  }
}

// Ties, carries into the exponent, subnormals, overflow and NaN: every value that rounding could
// treat in its own way.
TEST_P(ElementwiseSuite, StoresRoundToNearestEven) {
  std::vector<float> a;
  std::vector<float> b;
  for (const float base : {1.0f, -1.0f, 1.0078125f, 1.9921875f, 0x1p-126f, 0x1.fep127f, 3.0f}) {
    for (const float part : {0.0f, 0x1p-9f, 0x1.02p-9f, 0x1p-8f, 0x1.02p-8f, 0x1.8p-8f, 0x1p-7f}) {
      a.push_back(base);
      b.push_back(RoundTo(DType::kBFloat16, {base * part})[0]);
    }
  }
  a.insert(a.end(), {0x1p-133f, -0x1p-133f, 0.0f, -0.0f, std::nanf("")});
  b.insert(b.end(), {0x1p-133f, 0x1p-132f, -0.0f, -0.0f, 1.0f});
  std::vector<float> sum;
  for (size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
  sum = RoundTo(DType::kBFloat16, sum);
  const Shape shape{static_cast<int64_t>(a.size())};
  const Tensor out = Unwritten(shape, DType::kBFloat16);
  ASSERT_TRUE(kernels()
                  .Add(Upload(shape, a, DType::kBFloat16), Upload(shape, b, DType::kBFloat16), out)
                  .ok());
  const std::vector<float> actual = Download(out);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(sum[i])) {
      EXPECT_TRUE(std::isnan(actual[i]));
      continue;
    }
    EXPECT_EQ(actual[i], sum[i]) << a[i] << " + " << b[i];
    EXPECT_EQ(std::signbit(actual[i]), std::signbit(sum[i])) << a[i] << " + " << b[i];
  }
}

TEST_P(ElementwiseSuite, BiasGradientSumsColumns) {
  for (int i = 0; i < 60; ++i) {
    const auto [dtype, grad_dtype] = kTypePairs[i % 7];
    const int64_t rows = i < 4 ? 0 : RandomSize(1, 600);
    const int64_t cols = i == 4 ? 0 : RandomSize(1, 90);
    const int64_t left = RandomSize(0, 9);
    const int64_t width = left + cols + RandomSize(0, 9);
    const std::vector<float> dy = RoundTo(dtype, RandomNormal(rows * width));
    const std::vector<float> before = RoundTo(grad_dtype, RandomNormal(cols));
    for (const bool accumulate : {false, true}) {
      std::vector<double> expected(static_cast<size_t>(cols));
      for (int64_t c = 0; c < cols; ++c) {
        if (accumulate) expected[c] = before[c];
        for (int64_t r = 0; r < rows; ++r) expected[c] += dy[r * width + left + c];
      }
      const Tensor dbias =
          accumulate ? Upload({cols}, before, grad_dtype) : Unwritten({cols}, grad_dtype);
      ASSERT_TRUE(kernels()
                      .BiasGradient(Matrix(Upload({rows, width}, dy, dtype)).Columns(left, cols),
                                    dbias, accumulate)
                      .ok());
      // Half an ulp of a partial sum of unit normals for each of `rows` additions.
      const double tolerance = 0x1p-23 * (1.0 + static_cast<double>(rows));
      ExpectCloseIn(grad_dtype, Download(dbias), expected, 0, tolerance, "dbias");
    }
  }
}

TEST_P(ElementwiseSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2, 3}, std::vector<float>(6));
  const Tensor y = Upload({3, 2}, std::vector<float>(6));
  ExpectInvalid(kernels().Add(x, y, x), {"Add", "b is [3, 2], expected [2, 3]"});
  ExpectInvalid(kernels().Add(x, x, Tensor()), {"Add", "out is undefined"});
  ExpectInvalid(kernels().Add(x, x, Unwritten({2, 3}, DType::kBFloat16)),
                {"Add", "out is bf16, expected fp32 as a"});
  ExpectInvalid(kernels().Scale(UploadTokens({1}, {1}), 2.0f),
                {"Scale", "x is int32, expected fp32, bf16 or fp16"});
  ExpectInvalid(kernels().Lerp(x, y, 0.5f), {"Lerp", "target is [3, 2], expected [2, 3]"});
  ExpectInvalid(kernels().BiasGradient(x, Upload({2}, {0, 0}), false),
                {"BiasGradient", "dbias is [2], expected [3]"});
  Matrix outside(x);
  outside.offset = 1;
  ExpectInvalid(kernels().BiasGradient(outside, Upload({3}, {0, 0, 0}), false),
                {"BiasGradient", "dy", "[2, 3]"});
}

TEST_P(ElementwiseSuite, RefusesAnotherDevicesTensors) {
  const absl::StatusOr<std::shared_ptr<Device>> other =
      DeviceRegistry::Create(GetParam(), DeviceOptions{});
  ASSERT_TRUE(other.ok());
  const absl::StatusOr<Tensor> foreign =
      Tensor::Zeros(**other, {2}, DType::kFloat32, MemoryCategory::kActivations);
  ASSERT_TRUE(foreign.ok());
  ExpectInvalid(kernels().Scale(*foreign, 2.0f), {"Scale", "x is on", "this rank's own"});
}

}  // namespace zeroth::testing
