// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/adamw/testing/adamw_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class AdamWSuite : public KernelsSuite {};

namespace {

constexpr double kUlp = 0x1p-23;

AdamWArgs Scalars(double beta1, double beta2, int step) {
  AdamWArgs args;
  args.beta1 = beta1;
  args.beta2 = beta2;
  args.correction1 = 1.0 - std::pow(beta1, step);
  args.correction2 = 1.0 - std::pow(beta2, step);
  return args;
}

}  // namespace

// Three steps whose results are known, with eps on either side of the correction.
TEST_P(AdamWSuite, KnownSteps) {
  const std::vector<std::vector<float>> gradients = {
      {0.1f, 0.2f, -0.3f, 0.0f}, {0.05f, -0.2f, 0.3f, 0.0f}, {0.1f, 0.2f, 0.3f, 1e-8f}};
  for (const EpsMode mode : {EpsMode::kAfterCorrection, EpsMode::kBeforeCorrection}) {
    const Tensor param = Upload({4}, {1, 2, 3, 4});
    const Tensor m = Upload({4}, {0, 0, 0, 0});
    const Tensor v = Upload({4}, {0, 0, 0, 0});
    for (int step = 1; step <= 3; ++step) {
      AdamWArgs args = Scalars(0.9, 0.999, step);
      args.param = param;
      args.grad = Upload({4}, gradients[static_cast<size_t>(step - 1)]);
      args.m = m;
      args.v = v;
      args.lr = 0.1;
      args.eps = 1e-8;
      args.weight_decay = 0.1;
      args.eps_mode = mode;
      ASSERT_TRUE(kernels::AdamW(kernels(), args).ok());
    }
    const double last = mode == EpsMode::kAfterCorrection ? 3.8578066 : 3.87923789;
    ExpectClose(Download(param), {0.683707178, 1.81421924, 2.96347499, last}, 0, 1e-6, "param");
  }
}

TEST_P(AdamWSuite, EveryElementWithinUlpsOfFloat64) {
  for (int i = 0; i < 40; ++i) {
    const DType grad_dtype = kElementTypes[i / 2 % 3];
    const int64_t n = RandomSize(0, 500);
    AdamWArgs args = Scalars(0.9, i % 2 == 0 ? 0.999 : 0.95, 1 + i);
    args.lr = 3e-4;
    args.weight_decay = 0.1;
    args.grad_scale = 0.37;
    args.eps_mode = i % 3 == 0 ? EpsMode::kBeforeCorrection : EpsMode::kAfterCorrection;
    const std::vector<float> param = RandomNormal(n, 0.02f);
    const std::vector<float> grad =
        RoundTo(grad_dtype, RandomNormal(n, i % 4 == 0 ? 1e-12f : 1e-3f));
    const std::vector<float> m = RandomNormal(n, 1e-3f);
    std::vector<float> v = RandomNormal(n, 1e-3f);
    for (float& x : v) x *= x;
    args.param = Upload({n}, param);
    args.grad = Upload({n}, grad, grad_dtype);
    args.m = Upload({n}, m);
    args.v = Upload({n}, v);
    AdamWArgs scaled = args;  // as the reference knows it
    if (i % 5 == 0) {
      args.grad_factor = Upload({1}, {0.81f});
      scaled.grad_scale *= static_cast<double>(0.81f);
    }
    ASSERT_TRUE(kernels::AdamW(kernels(), args).ok());

    const std::vector<float> new_param = Download(args.param);
    const std::vector<float> new_m = Download(args.m);
    const std::vector<float> new_v = Download(args.v);
    for (size_t e = 0; e < param.size(); ++e) {
      const reference::AdamWElement expected =
          reference::AdamW(scaled, {param[e], m[e], v[e]}, grad[e]);
      // The two terms of the moment may cancel, so the tolerance is relative to the terms and not
      // to their sum.
      const double m_terms =
          std::abs(args.beta1 * m[e]) + std::abs((1 - args.beta1) * scaled.grad_scale * grad[e]);
      ASSERT_NEAR(new_m[e], expected.m, 2 * kUlp * m_terms);
      ASSERT_NEAR(new_v[e], expected.v, 3 * kUlp * expected.v + DBL_MIN);
      const double change = std::abs(expected.param - param[e]);
      const double step_terms = change * m_terms / std::max(std::abs(expected.m), 1e-300);
      ASSERT_NEAR(new_param[e], expected.param,
                  0.5 * kUlp * std::abs(expected.param) + 8 * kUlp * std::max(change, step_terms));
    }
  }
}

// The factor on the device does what the same factor on the host does, to the last bit.
TEST_P(AdamWSuite, AFactorOnTheDeviceIsAFactor) {
  constexpr int64_t kCount = 77;
  const std::vector<float> grad = RandomNormal(kCount);
  const float factor = 0.3710937f;
  const auto step = [&](double grad_scale, const Tensor& grad_factor) {
    AdamWArgs args = Scalars(0.9, 0.95, 3);
    args.lr = 0.1;
    args.grad_scale = grad_scale;
    args.grad_factor = grad_factor;
    args.param = Upload({kCount}, std::vector<float>(kCount, 1.0f));
    args.grad = Upload({kCount}, grad);
    args.m = Upload({kCount}, std::vector<float>(kCount, 0.1f));
    args.v = Upload({kCount}, std::vector<float>(kCount, 0.2f));
    EXPECT_TRUE(kernels::AdamW(kernels(), args).ok());
    return Download(args.param);
  };
  // The second of two floats, as ClipFactor writes it.
  const Tensor norm_and_factor = Upload({2}, {5.0f, factor});
  const std::vector<float> expected = step(static_cast<double>(factor), Tensor());
  EXPECT_EQ(step(1.0, norm_and_factor.View(1, {1})), expected);
  EXPECT_NE(step(1.0, Tensor()), expected);
}

TEST_P(AdamWSuite, ANaNFactorChangesNothing) {
  constexpr int64_t kCount = 37;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = RandomNormal(kCount);
  AdamWArgs args = Scalars(0.9, 0.95, 3);
  args.lr = 0.1;
  args.weight_decay = 0.1;
  args.param = Upload({kCount}, values);
  args.grad = Upload({kCount}, std::vector<float>(kCount, nan));
  args.m = Upload({kCount}, values);
  args.v = Upload({kCount}, values);
  args.grad_factor = Upload({1}, {nan});
  ASSERT_TRUE(kernels::AdamW(kernels(), args).ok());
  for (const Tensor& tensor : {args.param, args.m, args.v}) EXPECT_EQ(Download(tensor), values);
}

// Scalars that are read from device memory when the step runs have the effect of the host's
// scalars, to the last bit, and replace all of these.
TEST_P(AdamWSuite, CoefficientsOnTheDeviceAreTheScalars) {
  for (int i = 0; i < 12; ++i) {
    const int64_t count = RandomSize(0, 300);
    AdamWArgs scalars = Scalars(0.9, 0.95, 1 + 7 * i);
    scalars.lr = 1e-2 / (i + 1);
    scalars.weight_decay = i % 2 == 0 ? 0.1 : 0.0;
    scalars.grad_scale = 0.37;
    scalars.eps_mode = i % 3 == 0 ? EpsMode::kBeforeCorrection : EpsMode::kAfterCorrection;
    if (i % 4 == 1) scalars.grad_factor = Upload({1}, {0.81f});
    const AdamWCoefficients derived = DeriveAdamWCoefficients(scalars);
    AdamWArgs others = Scalars(0.5, 0.5, 2);
    others.lr = 5;
    others.grad_factor = scalars.grad_factor;
    std::vector<float> words(kAdamWCoefficients);
    std::memcpy(words.data(), &derived, sizeof(derived));
    others.coefficients = Upload({kAdamWCoefficients}, words);
    const std::vector<float> param = RandomNormal(count);
    const std::vector<float> grad = RandomNormal(count, 0.1f);
    for (AdamWArgs* const args : {&scalars, &others}) {
      args->param = Upload({count}, param);
      args->grad = Upload({count}, grad, kElementTypes[i / 2 % 3]);
      args->m = Upload({count}, std::vector<float>(static_cast<size_t>(count), 0.1f));
      args->v = Upload({count}, std::vector<float>(static_cast<size_t>(count), 0.2f));
      ASSERT_TRUE(kernels::AdamW(kernels(), *args).ok());
    }
    EXPECT_EQ(Download(others.param), Download(scalars.param));
    EXPECT_EQ(Download(others.m), Download(scalars.m));
    EXPECT_EQ(Download(others.v), Download(scalars.v));
  }
}

// Sharding cuts a tensor anywhere: the pieces together must have the bits of the whole.
TEST_P(AdamWSuite, CutsDoNotShow) {
  constexpr int64_t kCount = 1237;
  AdamWArgs whole = Scalars(0.9, 0.95, 7);
  whole.lr = 1e-2;
  whole.weight_decay = 0.1;
  const std::vector<float> param = RandomNormal(kCount);
  const std::vector<float> grad = RandomNormal(kCount, 0.1f);
  const std::vector<float> m = RandomNormal(kCount, 0.1f);
  std::vector<float> v = RandomNormal(kCount, 0.1f);
  for (float& x : v) x *= x;
  const auto fill = [&](AdamWArgs& args) {
    args.param = Upload({kCount}, param);
    args.grad = Upload({kCount}, grad);
    args.m = Upload({kCount}, m);
    args.v = Upload({kCount}, v);
  };
  fill(whole);
  ASSERT_TRUE(kernels::AdamW(kernels(), whole).ok());
  for (int i = 0; i < 20; ++i) {
    AdamWArgs all = whole;
    fill(all);
    for (int64_t begin = 0; begin < kCount;) {
      const int64_t count = std::min(kCount - begin, RandomSize(1, 200));
      AdamWArgs piece = all;
      piece.param = all.param.View(begin, {count});
      piece.grad = all.grad.View(begin, {count});
      piece.m = all.m.View(begin, {count});
      piece.v = all.v.View(begin, {count});
      ASSERT_TRUE(kernels::AdamW(kernels(), piece).ok());
      begin += count;
    }
    EXPECT_EQ(Download(all.param), Download(whole.param));
    EXPECT_EQ(Download(all.m), Download(whole.m));
    EXPECT_EQ(Download(all.v), Download(whole.v));
  }
}

TEST_P(AdamWSuite, WithoutGradientMomentsReachZeroAndDecayContinues) {
  AdamWArgs args = Scalars(0.9, 0.95, 1000);
  args.lr = 0.1;
  args.weight_decay = 0.1;
  args.param = Upload({3}, {1, -2, 3});
  args.grad = Upload({3}, {0, 0, 0});
  args.m = Upload({3}, {1e-36f, -1e-36f, 0});
  args.v = Upload({3}, {1e-36f, 1e-36f, 0});
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(kernels::AdamW(kernels(), args).ok());
  EXPECT_EQ(Download(args.m), std::vector<float>(3, 0.0f));
  EXPECT_EQ(Download(args.v), std::vector<float>(3, 0.0f));
  const double shrunk = std::pow(0.99, 200);
  ExpectClose(Download(args.param), {shrunk, -2 * shrunk, 3 * shrunk}, 1e-5, 0, "param");
}

TEST_P(AdamWSuite, NanGradientsShow) {
  AdamWArgs args = Scalars(0.9, 0.95, 1);
  args.lr = 0.1;
  args.param = Upload({2}, {1, 1});
  args.grad = Upload({2}, {std::nanf(""), 1});
  args.m = Upload({2}, {0, 0});
  args.v = Upload({2}, {0, 0});
  ASSERT_TRUE(kernels::AdamW(kernels(), args).ok());
  EXPECT_TRUE(std::isnan(Download(args.param)[0]));
  EXPECT_FALSE(std::isnan(Download(args.param)[1]));
}

TEST_P(AdamWSuite, RefusesWhatDoesNotFit) {
  AdamWArgs args;
  args.param = Upload({2}, {1, 1});
  args.grad = Upload({3}, {1, 1, 1});
  args.m = Upload({2}, {0, 0});
  args.v = Upload({2}, {0, 0});
  ExpectInvalid(kernels::AdamW(kernels(), args), {"AdamW", "grad is [3], expected [2]"});
  args.grad = UploadTokens({2}, {1, 1});
  ExpectInvalid(kernels::AdamW(kernels(), args),
                {"AdamW", "grad is int32, expected fp32, bf16 or fp16"});
  args.grad = Upload({2}, {1, 1});
  args.m = Upload({2}, {0, 0}, DType::kBFloat16);
  ExpectInvalid(kernels::AdamW(kernels(), args), {"AdamW", "v is fp32, expected bf16"});
  args.m = args.v;
  args.grad_factor = Upload({2}, {1, 1});
  ExpectInvalid(kernels::AdamW(kernels(), args),
                {"AdamW", "grad_factor is [2], expected 1 elements"});
  args.grad_factor = Tensor();
  args.coefficients = Upload({2}, {1, 1});
  ExpectInvalid(kernels::AdamW(kernels(), args),
                {"AdamW", "coefficients is [2], expected 11 elements"});
  args.coefficients = Tensor();
  args.correction2 = 0;
  ExpectInvalid(kernels::AdamW(kernels(), args), {"AdamW", "correction2"});
}

INSTANTIATE_TEST_SUITE_P(Devices, AdamWSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
