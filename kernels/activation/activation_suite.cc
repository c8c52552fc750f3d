// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/activation/activation.h"
#include "zeroth/kernels/activation/testing/activation_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class ActivationSuite : public KernelsSuite {};

namespace {

constexpr double kHalfUlp = 0x1p-24;

// Rounding errors in the argument of an exponential are multiplied by the argument.
double RelativeTolerance(double exponent) { return kHalfUlp * (8.0 + 4.0 * std::abs(exponent)); }

// Returns the rounding of what is stored; that of fp32 is part of every tolerance.
double StoreError(DType dtype, double x) {
  return dtype == DType::kFloat32 ? 0.0 : HalfUlp(dtype, x);
}

double GeluExponent(double x) { return 1.5957691216057308 * (x + 0.044715 * x * x * x); }

// Returns arguments: dense where the functions bend, and out to where they are straight lines.
std::vector<float> Abscissae() {
  std::vector<float> x = {0.0f,        -0.0f, 1e-30f, -1e-30f, 1e-8f, -1e-8f,
                          -0.7517915f, 20.0f, 1e4f,   1e20f,   3e38f};
  for (int i = -7000; i <= 7000; ++i) x.push_back(static_cast<float>(i) * 0.001f + 1e-5f);
  return x;
}

}  // namespace

TEST_P(ActivationSuite, GeluWithinRounding) {
  for (const DType dtype : kElementTypes) {
    const std::vector<float> x = RoundTo(dtype, Abscissae());
    const Tensor y = Unwritten({static_cast<int64_t>(x.size())}, dtype);
    ASSERT_TRUE(kernels::Gelu(kernels(), Upload(y.shape(), x, dtype), y).ok());
    const std::vector<float> values = Download(y);
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = reference::Gelu(x[i]);
      const double exponent = x[i] < 0 ? GeluExponent(x[i]) : 0.0;
      if (std::isinf(expected)) {
        ASSERT_EQ(values[i], expected) << DTypeName(dtype);
        continue;
      }
      const double error = RelativeTolerance(exponent) * std::abs(expected) + 1e-37;
      ASSERT_NEAR(values[i], expected, error + StoreError(dtype, expected))
          << "gelu(" << x[i] << ") in " << DTypeName(dtype);
    }
  }
}

TEST_P(ActivationSuite, GeluBackwardWithinRounding) {
  for (const DType dtype : kElementTypes) {
    const std::vector<float> x = RoundTo(dtype, Abscissae());
    const Shape shape{static_cast<int64_t>(x.size())};
    const std::vector<float> dy = RoundTo(dtype, RandomNormal(shape.numel()));
    const Tensor dx = Unwritten(shape, dtype);
    ASSERT_TRUE(
        kernels::GeluBackward(kernels(), Upload(shape, x, dtype), Upload(shape, dy, dtype), dx)
            .ok());
    const std::vector<float> values = Download(dx);
    for (size_t i = 0; i < x.size(); ++i) {
      const double bounded = std::min(16.0, static_cast<double>(x[i]));
      const double slope = reference::GeluDerivative(bounded);
      const double expected = dy[i] * slope;
      // The two terms of the derivative cancel near its root, so that the error is relative to
      // their size.
      const double terms = std::abs(dy[i]) * (std::abs(slope) + (x[i] < 0 ? 0.4 : 0.0));
      const double exponent = x[i] < 0 ? GeluExponent(x[i]) : 0.0;
      const double error = RelativeTolerance(std::min(10.0, std::abs(exponent))) * terms;
      ASSERT_NEAR(values[i], expected, error + StoreError(dtype, expected))
          << "gelu'(" << x[i] << ") in " << DTypeName(dtype);
    }
  }
}

TEST_P(ActivationSuite, FarNegativeInputsGiveZero) {
  for (const DType dtype : kElementTypes) {
    const bool narrow = dtype == DType::kFloat16;
    const float low = narrow ? -6e4f : -1e20f;
    const float lowest = narrow ? -65504.0f : -3.38e38f;  // a number in bf16, too
    const Tensor x = Upload({4}, {-20.0f, -1e4f, low, lowest}, dtype);
    const Tensor y = Unwritten({4}, dtype);
    ASSERT_TRUE(kernels::Gelu(kernels(), x, y).ok());
    for (const float value : Download(y)) EXPECT_NEAR(value, 0.0, 1e-34);
    ASSERT_TRUE(kernels::GeluBackward(kernels(), x, Upload({4}, {1, 1, 1, 1}, dtype), y).ok());
    for (const float value : Download(y)) EXPECT_NEAR(value, 0.0, 1e-34);
    const Tensor gate_up = Upload({2, 2}, {lowest, 1.0f, low, 1.0f}, dtype);
    const Tensor out = Unwritten({2, 1}, dtype);
    ASSERT_TRUE(kernels::SwiGlu(kernels(), gate_up, out).ok());
    for (const float value : Download(out)) EXPECT_NEAR(value, 0.0, 1e-34);
    ASSERT_TRUE(kernels::SwiGlu(kernels(), gate_up, out, /*limit=*/7.0f).ok());
    for (const float value : Download(out)) EXPECT_NEAR(value, 0.0, 1e-34);
  }
}

TEST_P(ActivationSuite, NanStaysNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : kElementTypes) {
    const Tensor x = Upload({2}, {nan, 1.0f}, dtype);
    const Tensor y = Unwritten({2}, dtype);
    ASSERT_TRUE(kernels::Gelu(kernels(), x, y).ok());
    EXPECT_TRUE(std::isnan(Download(y)[0]));
    EXPECT_FALSE(std::isnan(Download(y)[1]));
    ASSERT_TRUE(kernels::GeluBackward(kernels(), x, Upload({2}, {1, 1}, dtype), y).ok());
    EXPECT_TRUE(std::isnan(Download(y)[0]));
    const Tensor out = Unwritten({1, 1}, dtype);
    ASSERT_TRUE(kernels::SwiGlu(kernels(), Upload({1, 2}, {nan, 1.0f}, dtype), out).ok());
    EXPECT_TRUE(std::isnan(Download(out)[0]));
    for (const std::vector<float>& gate_up : {std::vector{nan, 1.0f}, std::vector{1.0f, nan}}) {
      ASSERT_TRUE(kernels::SwiGlu(kernels(), Upload({1, 2}, gate_up, dtype), out, 7.0f).ok());
      EXPECT_TRUE(std::isnan(Download(out)[0]));
    }
  }
}

TEST_P(ActivationSuite, GeluInPlaceOnOddSizes) {
  for (const DType dtype : kElementTypes) {
    for (const int64_t n : {0, 1, 15, 16, 17, 33, 1001}) {
      const std::vector<float> x = RandomNormal(n, 3.0f);
      const Tensor apart = Unwritten({n}, dtype);
      const Tensor in_place = Upload({n}, x, dtype);
      ASSERT_TRUE(kernels::Gelu(kernels(), in_place, apart).ok());
      ASSERT_TRUE(kernels::Gelu(kernels(), in_place, in_place).ok());
      EXPECT_EQ(Download(in_place), Download(apart));
      const Tensor gradient = Upload({n}, x, dtype);
      const Tensor other = Unwritten({n}, dtype);
      ASSERT_TRUE(kernels::GeluBackward(kernels(), apart, gradient, other).ok());
      ASSERT_TRUE(kernels::GeluBackward(kernels(), apart, gradient, gradient).ok());
      EXPECT_EQ(Download(gradient), Download(other));
    }
  }
}

TEST_P(ActivationSuite, SwiGluForwardAndBackward) {
  for (int i = 0; i < 60; ++i) {
    const DType dtype = kElementTypes[i % 3];
    const int64_t rows = RandomSize(0, 9);
    const int64_t hidden = RandomSize(0, 70);
    const float limit = i % 2 == 0 ? 0.0f : 5.0f;  // some values are beyond it
    const std::vector<float> gate_up = RoundTo(dtype, RandomNormal(rows * 2 * hidden, 4.0f));
    const std::vector<float> dout = RoundTo(dtype, RandomNormal(rows * hidden));
    const Tensor packed = Upload({rows, 2 * hidden}, gate_up, dtype);
    const Tensor out = Unwritten({rows, hidden}, dtype);
    ASSERT_TRUE(kernels::SwiGlu(kernels(), packed, out, limit).ok());
    ExpectCloseIn(dtype, Download(out), reference::SwiGlu(rows, hidden, ToDouble(gate_up), limit),
                  1e-6, 0, "out");
    const Tensor gradient = Unwritten({rows, 2 * hidden}, dtype);
    ASSERT_TRUE(kernels::SwiGluBackward(kernels(), packed, Upload({rows, hidden}, dout, dtype),
                                        gradient, limit)
                    .ok());
    ExpectCloseIn(dtype, Download(gradient),
                  reference::SwiGluBackward(rows, hidden, ToDouble(gate_up), ToDouble(dout), limit),
                  1e-6, 0, "gradient");
  }
}

TEST_P(ActivationSuite, ReferenceGradientsAreDerivatives) {
  const std::vector<double> weights = ToDouble(RandomNormal(12));
  const auto gelu_loss = [&](const std::vector<double>& x) {
    double loss = 0;
    for (size_t i = 0; i < x.size(); ++i) loss += weights[i] * reference::Gelu(x[i]);
    return loss;
  };
  std::vector<double> x = ToDouble(RandomNormal(12, 2.0f));
  std::vector<double> analytic;
  for (size_t i = 0; i < x.size(); ++i)
    analytic.push_back(weights[i] * reference::GeluDerivative(x[i]));
  ExpectGradient(gelu_loss, x, analytic);

  for (const double limit : {0.0, 1.5}) {
    const auto swiglu_loss = [&](const std::vector<double>& gate_up) {
      const std::vector<double> out = reference::SwiGlu(3, 4, gate_up, limit);
      double loss = 0;
      for (size_t i = 0; i < out.size(); ++i) loss += weights[i] * out[i];
      return loss;
    };
    x = ToDouble(RandomNormal(24, 2.0f));
    ExpectGradient(swiglu_loss, x, reference::SwiGluBackward(3, 4, x, weights, limit));
  }
}

TEST_P(ActivationSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({2, 3}, std::vector<float>(6));
  const Tensor wide = Upload({2, 4}, std::vector<float>(8));
  ExpectInvalid(kernels::Gelu(kernels(), x, wide), {"Gelu", "y is [2, 4], expected [2, 3]"});
  ExpectInvalid(kernels::GeluBackward(kernels(), x, wide, x), {"GeluBackward", "dy is [2, 4]"});
  ExpectInvalid(kernels::Gelu(kernels(), x, Tensor()), {"Gelu", "y is undefined"});
  ExpectInvalid(kernels::Gelu(kernels(), x, Unwritten({2, 3}, DType::kBFloat16)),
                {"Gelu", "y is bf16, expected fp32 as x"});
  ExpectInvalid(kernels::SwiGlu(kernels(), wide, x),
                {"SwiGlu", "gate_up is [2, 4], expected [2, 6]"});
  ExpectInvalid(kernels::SwiGluBackward(kernels(), x, x, x), {"SwiGluBackward", "gate_up"});
  ExpectInvalid(kernels::SwiGlu(kernels(), wide, Unwritten({2, 2}), -1.0f),
                {"SwiGlu", "limit is -1"});
}

INSTANTIATE_TEST_SUITE_P(Devices, ActivationSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
