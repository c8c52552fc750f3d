// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Additions: elementwise and down columns.

#include "zeroth/kernels/testing/elementwise_suite.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "zeroth/kernels/matrix.h"

namespace zeroth::testing {

TEST_P(ElementwiseSuite, AddAndScaleAreTheFloatOperations) {
  for (const int64_t n : {0, 1, 5, 16, 31, 100, 40000}) {
    const std::vector<float> a = RandomNormal(n);
    const std::vector<float> b = RandomNormal(n);
    std::vector<float> sum;
    std::vector<float> scaled;
    for (size_t i = 0; i < a.size(); ++i) {
      sum.push_back(a[i] + b[i]);
      scaled.push_back(a[i] * 0.3f);
    }
    const Tensor x = Upload({n}, a);
    const Tensor y = Upload({n}, b);
    const Tensor out = Unwritten({n});
    ASSERT_TRUE(kernels().Add(x, y, out).ok());
    EXPECT_EQ(Download(out), sum);
    ASSERT_TRUE(kernels().Add(x, y, y).ok());
    EXPECT_EQ(Download(y), sum);
    ASSERT_TRUE(kernels().Scale(x, 0.3f).ok());
    EXPECT_EQ(Download(x), scaled);
  }
}

TEST_P(ElementwiseSuite, BiasGradientSumsColumns) {
  for (int i = 0; i < 30; ++i) {
    const int64_t rows = i == 0 ? 0 : RandomSize(1, 600);
    const int64_t cols = i == 1 ? 0 : RandomSize(1, 90);
    const int64_t left = RandomSize(0, 9);
    const int64_t width = left + cols + RandomSize(0, 9);
    const std::vector<float> dy = RandomNormal(rows * width);
    const std::vector<float> before = RandomNormal(cols);
    for (const bool accumulate : {false, true}) {
      std::vector<double> expected(static_cast<size_t>(cols));
      for (int64_t c = 0; c < cols; ++c) {
        if (accumulate) expected[c] = before[c];
        for (int64_t r = 0; r < rows; ++r) expected[c] += dy[r * width + left + c];
      }
      const Tensor dbias = accumulate ? Upload({cols}, before) : Unwritten({cols});
      ASSERT_TRUE(kernels()
                      .BiasGradient(Matrix(Upload({rows, width}, dy)).Columns(left, cols), dbias,
                                    accumulate)
                      .ok());
      // Half an ulp of a partial sum of unit normals for each of `rows` additions.
      const double tolerance = 0x1p-23 * (1.0 + static_cast<double>(rows));
      ExpectClose(Download(dbias), expected, 0, tolerance, "dbias");
    }
  }
}

TEST_P(ElementwiseSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2, 3}, std::vector<float>(6));
  const Tensor y = Upload({3, 2}, std::vector<float>(6));
  ExpectInvalid(kernels().Add(x, y, x), {"Add", "b is [3, 2], expected [2, 3]"});
  ExpectInvalid(kernels().Add(x, x, Tensor()), {"Add", "out is undefined"});
  ExpectInvalid(kernels().Scale(UploadTokens({1}, {1}), 2.0f), {"Scale", "x is int32"});
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
