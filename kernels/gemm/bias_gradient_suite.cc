// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/gemm/gemm.h"
#include "zeroth/kernels/matrix.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class BiasGradientSuite : public KernelsSuite {};

TEST_P(BiasGradientSuite, SumsColumns) {
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
      ASSERT_TRUE(kernels::BiasGradient(
                      kernels(), Matrix(Upload({rows, width}, dy, dtype)).Columns(left, cols),
                      dbias, accumulate)
                      .ok());
      // Half an ulp of a partial sum of unit normals for each of `rows` additions.
      const double tolerance = 0x1p-23 * (1.0 + static_cast<double>(rows));
      ExpectCloseIn(grad_dtype, Download(dbias), expected, 0, tolerance, "dbias");
    }
  }
}

TEST_P(BiasGradientSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2, 3}, std::vector<float>(6));
  ExpectInvalid(kernels::BiasGradient(kernels(), x, Upload({2}, {0, 0}), false),
                {"BiasGradient", "dbias is [2], expected [3]"});
  Matrix outside(x);
  outside.offset = 1;
  ExpectInvalid(kernels::BiasGradient(kernels(), outside, Upload({3}, {0, 0, 0}), false),
                {"BiasGradient", "dy", "[2, 3]"});
}

INSTANTIATE_TEST_SUITE_P(Devices, BiasGradientSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
