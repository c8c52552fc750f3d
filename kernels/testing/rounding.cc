// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "gtest/gtest.h"

namespace zeroth {

std::vector<float> RoundTo(DType dtype, std::vector<float> values) {
  if (dtype == DType::kBFloat16) {
    for (float& value : values) value = ToFloat(ToBFloat16(value));
  } else if (dtype == DType::kFloat16) {
    for (float& value : values) value = ToFloat(ToFloat16(value));
  }
  return values;
}

double HalfUlp(DType dtype, double x) {
  if (x == 0.0 || !std::isfinite(x)) return 0.0;
  if (dtype == DType::kBFloat16) return std::ldexp(1.0, std::ilogb(x) - 8);
  // Below 2^-14 fp16 is subnormal: steps of 2^-24.
  if (dtype == DType::kFloat16) return std::ldexp(1.0, std::max(std::ilogb(x), -14) - 11);
  return std::ldexp(1.0, std::ilogb(x) - 24);
}

void ExpectCloseIn(DType dtype, const std::vector<float>& actual,
                   const std::vector<double>& expected, double relative, double absolute,
                   const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0.0;
  for (double x : expected) largest = std::max(largest, std::abs(x));
  const double arithmetic = relative * largest + absolute;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double rounding = dtype == DType::kFloat32 ? 0.0 : HalfUlp(dtype, expected[i]);
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], arithmetic + rounding)
        << what << " (" << DTypeName(dtype) << "), element " << i;
  }
}

}  // namespace zeroth
