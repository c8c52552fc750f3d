// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/muon/muon.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class MuonSuite : public KernelsSuite {
 protected:
  MuonScalars Scalars(const MuonCoefficients& c, float factor) {
    const std::vector<float> values = {c.grad_scale, c.momentum, c.one_minus_momentum, c.decay,
                                       c.step};
    return {Upload({kMuonCoefficients}, values), Upload({1}, {factor})};
  }
};

constexpr MuonCoefficients kStep = {0.5f, 0.9f, 0.1f, 0.01f, 0.3f};

TEST_P(MuonSuite, MomentumIsNesterovs) {
  for (const DType dtype : kElementTypes) {
    for (const int64_t n : {0, 1, 7, 33, 40000}) {
      const std::vector<float> grad = RoundTo(dtype, RandomNormal(n));
      const std::vector<float> m = RandomNormal(n);
      std::vector<double> next;
      std::vector<double> u;
      for (size_t i = 0; i < m.size(); ++i) {
        const double g = static_cast<double>(grad[i]) * 0.5 * 0.25;
        next.push_back(0.9 * static_cast<double>(m[i]) + 0.1 * g);
        u.push_back(0.9 * next.back() + 0.1 * g);
      }
      const Tensor gradient = Upload({n}, grad, dtype);
      for (const bool wants_u : {false, true}) {
        const Tensor momentum = Upload({n}, m);
        const Tensor out = wants_u ? Unwritten({n}) : Tensor();
        ASSERT_TRUE(
            kernels::MuonMomentum(kernels(), Scalars(kStep, 0.25f), gradient, momentum, out).ok());
        ExpectClose(Download(momentum), next, 1e-6, 1e-7, "m");
        if (wants_u) ExpectClose(Download(out), u, 1e-6, 1e-7, "u");
      }
    }
  }
}

TEST_P(MuonSuite, AResultDoesNotDependOnAnElementsPosition) {
  constexpr int64_t kCount = 1000;
  const std::vector<float> grad = RandomNormal(kCount);
  const std::vector<float> start = RandomNormal(kCount);
  const MuonScalars scalars = Scalars(kStep, 1.0f);
  const Tensor g = Upload({kCount}, grad);
  const Tensor whole = Upload({kCount}, start);
  const Tensor cut = Upload({kCount}, start);
  const Tensor u = Unwritten({kCount});
  ASSERT_TRUE(kernels::MuonMomentum(kernels(), scalars, g, whole, u).ok());
  ASSERT_TRUE(kernels::MuonUpdate(kernels(), scalars, u, whole).ok());
  for (int64_t begin = 0; begin < kCount;) {
    const int64_t count = std::min(RandomSize(1, 50), kCount - begin);
    const Shape shape({count});
    const Tensor part = Unwritten(shape);
    const Tensor m = cut.View(begin, shape);
    ASSERT_TRUE(kernels::MuonMomentum(kernels(), scalars, g.View(begin, shape), m, part).ok());
    ASSERT_TRUE(kernels::MuonUpdate(kernels(), scalars, part, m).ok());
    begin += count;
  }
  EXPECT_EQ(Download(cut), Download(whole));
}

TEST_P(MuonSuite, UpdateDecaysAndSteps) {
  const std::vector<float> param = RandomNormal(1001);
  const std::vector<float> x = RandomNormal(1001);
  std::vector<double> expected;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = static_cast<double>(param[i]);
    expected.push_back(w - 0.3 * static_cast<double>(x[i]) - 0.01 * w);
  }
  const Tensor w = Upload({1001}, param);
  ASSERT_TRUE(kernels::MuonUpdate(kernels(), Scalars(kStep, 0.25f), Upload({1001}, x), w).ok());
  ExpectClose(Download(w), expected, 1e-6, 1e-7, "param");
}

TEST_P(MuonSuite, ASkippedStepLeavesEverything) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = RandomNormal(100);
  const Tensor m = Upload({100}, values);
  const Tensor u = Unwritten({100});
  const Tensor grad = Unwritten({100});
  ASSERT_TRUE(kernels::MuonMomentum(kernels(), Scalars(kStep, nan), grad, m, u).ok());
  EXPECT_EQ(Download(m), values);
  EXPECT_EQ(Download(u), std::vector<float>(100));
  ASSERT_TRUE(kernels::MuonUpdate(kernels(), Scalars(kStep, nan), u, m).ok());
  EXPECT_EQ(Download(m), values);
}

TEST_P(MuonSuite, PolynomialReadsAndWritesTheLowerTriangle) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t n : {1, 2, 31, 65, 130}) {
      for (const float norm_squared : {0.0f, 4.0f, 1e-20f}) {
        const std::vector<float> s = RoundTo(dtype, RandomNormal(n * n));
        const std::vector<float> s2 = RoundTo(dtype, RandomNormal(n * n));
        const double r = norm_squared == 4.0f ? 0.5 : 1e7;
        const double q = norm_squared == 4.0f ? 1.0 : 1e7 * 0x1p-23;
        std::vector<double> expected;
        for (int64_t row = 0; row < n; ++row) {
          for (int64_t col = 0; col < n; ++col) {
            const auto at = static_cast<size_t>(std::max(row, col) * n + std::min(row, col));
            expected.push_back(r * ((row == col ? 3.0 : 0.0) -
                                    4.0 * std::pow(q, 2) * static_cast<double>(s[at]) +
                                    2.0 * std::pow(q, 4) * static_cast<double>(s2[at])));
          }
        }
        const Tensor p = Upload({n, n}, s2, dtype);
        MuonPolynomialArgs args{Upload({n, n}, s, dtype), p, Upload({1}, {norm_squared}), 3, -4, 2};
        ASSERT_TRUE(kernels::MuonPolynomial(kernels(), args).ok());
        ASSERT_TRUE(kernels::MuonMirror(kernels(), p).ok());
        ExpectClose(Download(p), expected, dtype == DType::kFloat32 ? 1e-6 : 5e-3, 0, "p");
      }
    }
  }
}

TEST_P(MuonSuite, NormaliseAddsTheDiagonalAndScalesTheLowerTriangle) {
  for (const DType dtype : kElementTypes) {
    for (const int64_t n : {0, 1, 5, 300, 1000}) {
      for (const float size : {1.0f, 0x1p-80f, 0x1p110f}) {
        if (dtype == DType::kFloat16 && size != 1) continue;
        std::vector<float> s = RoundTo(dtype, RandomNormal(n * n));
        for (float& v : s) v *= size;
        double norm_squared = 0;
        for (size_t i = 0; i < s.size(); i += static_cast<size_t>(n) + 1) {
          s[i] = std::abs(s[i]);
          norm_squared += static_cast<double>(s[i]);
        }
        const Tensor normalised = Upload({n, n}, s, dtype);
        const Tensor norm = Unwritten({1});
        ASSERT_TRUE(kernels::MuonNormalise(kernels(), normalised, norm).ok());
        ExpectClose(Download(norm), {norm_squared}, 1e-5, 0, "norm_squared");
        const int exponent = std::ilogb(1 / std::max(std::sqrt(norm_squared), 1e-7));
        for (size_t i = 0; i < s.size(); ++i) {
          const auto row = static_cast<int64_t>(i) / n;
          if (static_cast<int64_t>(i) % n <= row) s[i] = std::ldexp(s[i], 2 * exponent);
        }
        EXPECT_EQ(Download(normalised), RoundTo(dtype, s)) << n << " rows of " << size;
      }
    }
  }
}

TEST_P(MuonSuite, RefusesWhatDoesNotFit) {
  const Tensor x = Upload({6}, std::vector<float>(6));
  const Tensor short_one = Upload({5}, std::vector<float>(5));
  const MuonScalars scalars = Scalars(kStep, 1.0f);
  ExpectInvalid(kernels::MuonMomentum(kernels(), scalars, x, short_one, {}), {"MuonMomentum", "m"});
  ExpectInvalid(kernels::MuonMomentum(kernels(), {x, {}}, x, x, {}),
                {"MuonMomentum", "coefficients"});
  ExpectInvalid(kernels::MuonUpdate(kernels(), scalars, x, short_one), {"MuonUpdate", "param"});
  const Tensor oblong = Upload({2, 3}, std::vector<float>(6));
  ExpectInvalid(kernels::MuonMirror(kernels(), oblong), {"MuonMirror", "[2, 3]"});
  ExpectInvalid(kernels::MuonNormalise(kernels(), x, x), {"MuonNormalise", "s"});
}

INSTANTIATE_TEST_SUITE_P(Devices, MuonSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
