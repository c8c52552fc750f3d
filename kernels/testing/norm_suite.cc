// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/norm_suite.h"

#include <cstdint>
#include <functional>
#include <vector>

#include "zeroth/kernels/reference/norm.h"

namespace zeroth::testing {
namespace {

constexpr float kEps = 1e-5f;

// What one random case is made of; the same for both norms.
struct Problem {
  int64_t rows;
  int64_t dim;
  std::vector<float> x;
  std::vector<float> residual;
  std::vector<float> gamma;
  std::vector<float> beta;
  std::vector<float> dy;
  std::vector<float> dx_before;
  std::vector<float> dgamma_before;
  std::vector<float> dbeta_before;
};

std::vector<float> Sum(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> sum;
  for (size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
  return sum;
}

void AddTo(std::vector<double>& values, const std::vector<float>& before) {
  for (size_t i = 0; i < values.size(); ++i) values[i] += before[i];
}

Problem MakeProblem(int64_t rows, int64_t dim,
                    const std::function<std::vector<float>(int64_t)>& draw) {
  Problem problem;
  problem.rows = rows;
  problem.dim = dim;
  for (std::vector<float>* matrix :
       {&problem.x, &problem.residual, &problem.dy, &problem.dx_before}) {
    *matrix = draw(rows * dim);
  }
  for (std::vector<float>* vector :
       {&problem.gamma, &problem.beta, &problem.dgamma_before, &problem.dbeta_before}) {
    *vector = draw(dim);
  }
  return problem;
}

}  // namespace

TEST_P(NormSuite, LayerNormForwardAndBackward) {
  for (int i = 0; i < 40; ++i) {
    const int64_t rows = i == 0 ? 0 : RandomSize(1, 90);
    const int64_t dim = RandomSize(1, 130);
    const Problem p = MakeProblem(rows, dim, [this](int64_t n) { return RandomNormal(n); });
    const bool fused = i % 2 == 0;
    const bool accumulate = i % 3 == 0;
    const std::vector<float> normalised = fused ? Sum(p.x, p.residual) : p.x;

    LayerNormArgs forward;
    forward.x = Upload({rows, dim}, p.x);
    if (fused) {
      forward.residual = Upload({rows, dim}, p.residual);
      forward.sum = i % 4 == 0 ? forward.residual : Unwritten({rows, dim});
    }
    forward.gamma = Upload({dim}, p.gamma);
    forward.beta = Upload({dim}, p.beta);
    forward.eps = kEps;
    forward.y = Unwritten({rows, dim});
    forward.mean = Unwritten({rows});
    forward.rstd = Unwritten({rows});
    ASSERT_TRUE(kernels().LayerNorm(forward).ok());
    const reference::Normalised expected = reference::LayerNorm(
        rows, dim, ToDouble(normalised), ToDouble(p.gamma), ToDouble(p.beta), kEps);
    ExpectClose(Download(forward.y), expected.y, 2e-6, 0, "y");
    ExpectClose(Download(forward.mean), expected.mean, 1e-6, 1e-7, "mean");
    ExpectClose(Download(forward.rstd), expected.rstd, 2e-6, 0, "rstd");
    if (fused) {
      EXPECT_EQ(Download(forward.sum), normalised);
    }

    LayerNormBackwardArgs backward;
    backward.dy = Upload({rows, dim}, p.dy);
    backward.x = Upload({rows, dim}, normalised);
    backward.gamma = forward.gamma;
    backward.mean = forward.mean;
    backward.rstd = forward.rstd;
    backward.dx = accumulate ? Upload({rows, dim}, p.dx_before) : Unwritten({rows, dim});
    backward.accumulate_dx = accumulate;
    backward.dgamma = accumulate ? Upload({dim}, p.dgamma_before) : Unwritten({dim});
    backward.accumulate_dgamma = accumulate;
    if (i % 5 != 0) backward.dbeta = accumulate ? Upload({dim}, p.dbeta_before) : Unwritten({dim});
    backward.accumulate_dbeta = accumulate;
    ASSERT_TRUE(kernels().LayerNormBackward(backward).ok());
    reference::NormGradients gradients = reference::LayerNormBackward(
        rows, dim, ToDouble(p.dy), ToDouble(normalised), ToDouble(p.gamma), kEps);
    if (accumulate) {
      AddTo(gradients.dx, p.dx_before);
      AddTo(gradients.dgamma, p.dgamma_before);
      AddTo(gradients.dbeta, p.dbeta_before);
    }
    ExpectClose(Download(backward.dx), gradients.dx, 4e-6, 1e-6, "dx");
    ExpectClose(Download(backward.dgamma), gradients.dgamma, 4e-6, 1e-6, "dgamma");
    if (backward.dbeta.defined())
      ExpectClose(Download(backward.dbeta), gradients.dbeta, 4e-6, 1e-6, "dbeta");
  }
}

TEST_P(NormSuite, RmsNormForwardAndBackward) {
  for (int i = 0; i < 40; ++i) {
    const int64_t rows = i == 0 ? 0 : RandomSize(1, 90);
    const int64_t dim = RandomSize(1, 130);
    const Problem p = MakeProblem(rows, dim, [this](int64_t n) { return RandomNormal(n); });
    const bool fused = i % 2 == 0;
    const bool accumulate = i % 3 == 0;
    const std::vector<float> normalised = fused ? Sum(p.x, p.residual) : p.x;

    RmsNormArgs forward;
    forward.x = Upload({rows, dim}, p.x);
    if (fused) {
      forward.residual = Upload({rows, dim}, p.residual);
      forward.sum = i % 4 == 0 ? forward.x : Unwritten({rows, dim});
    }
    forward.gamma = Upload({dim}, p.gamma);
    forward.eps = kEps;
    forward.y = Unwritten({rows, dim});
    forward.rstd = Unwritten({rows});
    ASSERT_TRUE(kernels().RmsNorm(forward).ok());
    const reference::Normalised expected =
        reference::RmsNorm(rows, dim, ToDouble(normalised), ToDouble(p.gamma), kEps);
    ExpectClose(Download(forward.y), expected.y, 1e-6, 0, "y");
    ExpectClose(Download(forward.rstd), expected.rstd, 1e-6, 0, "rstd");
    if (fused) {
      EXPECT_EQ(Download(forward.sum), normalised);
    }

    RmsNormBackwardArgs backward;
    backward.dy = Upload({rows, dim}, p.dy);
    backward.x = Upload({rows, dim}, normalised);
    backward.gamma = forward.gamma;
    backward.rstd = forward.rstd;
    backward.dx = accumulate ? Upload({rows, dim}, p.dx_before) : Unwritten({rows, dim});
    backward.accumulate_dx = accumulate;
    if (i % 5 != 0)
      backward.dgamma = accumulate ? Upload({dim}, p.dgamma_before) : Unwritten({dim});
    backward.accumulate_dgamma = accumulate;
    ASSERT_TRUE(kernels().RmsNormBackward(backward).ok());
    reference::NormGradients gradients = reference::RmsNormBackward(
        rows, dim, ToDouble(p.dy), ToDouble(normalised), ToDouble(p.gamma), kEps);
    if (accumulate) {
      AddTo(gradients.dx, p.dx_before);
      AddTo(gradients.dgamma, p.dgamma_before);
    }
    ExpectClose(Download(backward.dx), gradients.dx, 4e-6, 1e-6, "dx");
    if (backward.dgamma.defined())
      ExpectClose(Download(backward.dgamma), gradients.dgamma, 4e-6, 1e-6, "dgamma");
  }
}

// A mean far from zero must not eat the variance, as the difference of the mean square and the
// squared mean would let it.
TEST_P(NormSuite, LayerNormSurvivesALargeMean) {
  constexpr int64_t kDim = 1000;
  std::vector<float> x = RandomNormal(kDim);
  for (float& value : x) value += 1000.0f;
  const std::vector<float> gamma(kDim, 1.0f);
  const std::vector<float> beta(kDim, 0.0f);
  LayerNormArgs args;
  args.x = Upload({1, kDim}, x);
  args.gamma = Upload({kDim}, gamma);
  args.beta = Upload({kDim}, beta);
  args.y = Unwritten({1, kDim});
  args.mean = Unwritten({1});
  args.rstd = Unwritten({1});
  ASSERT_TRUE(kernels().LayerNorm(args).ok());
  const reference::Normalised expected =
      reference::LayerNorm(1, kDim, ToDouble(x), ToDouble(gamma), ToDouble(beta), args.eps);
  // The float mean itself is off by up to an ulp of 1000 or two.
  ExpectClose(Download(args.y), expected.y, 0, 2e-4, "y");
  ExpectClose(Download(args.rstd), expected.rstd, 1e-6, 0, "rstd");
}

TEST_P(NormSuite, ReferenceGradientsAreDerivatives) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kDim = 5;
  const std::vector<double> x = ToDouble(RandomNormal(kRows * kDim));
  const std::vector<double> dy = ToDouble(RandomNormal(kRows * kDim));
  const std::vector<double> gamma = ToDouble(RandomNormal(kDim));
  const std::vector<double> beta = ToDouble(RandomNormal(kDim));
  const auto dot = [&](const std::vector<double>& y) {
    double loss = 0;
    for (size_t i = 0; i < y.size(); ++i) loss += dy[i] * y[i];
    return loss;
  };
  const reference::NormGradients layer =
      reference::LayerNormBackward(kRows, kDim, dy, x, gamma, kEps);
  ExpectGradient(
      [&](const auto& v) { return dot(reference::LayerNorm(kRows, kDim, v, gamma, beta, kEps).y); },
      x, layer.dx);
  ExpectGradient(
      [&](const auto& v) { return dot(reference::LayerNorm(kRows, kDim, x, v, beta, kEps).y); },
      gamma, layer.dgamma);
  ExpectGradient(
      [&](const auto& v) { return dot(reference::LayerNorm(kRows, kDim, x, gamma, v, kEps).y); },
      beta, layer.dbeta);
  const reference::NormGradients rms = reference::RmsNormBackward(kRows, kDim, dy, x, gamma, kEps);
  ExpectGradient(
      [&](const auto& v) { return dot(reference::RmsNorm(kRows, kDim, v, gamma, kEps).y); }, x,
      rms.dx);
  ExpectGradient([&](const auto& v) { return dot(reference::RmsNorm(kRows, kDim, x, v, kEps).y); },
                 gamma, rms.dgamma);
}

TEST_P(NormSuite, RefusesWhatDoesNotFit) {
  LayerNormArgs args;
  args.x = Upload({2, 3}, std::vector<float>(6));
  args.gamma = Upload({4}, std::vector<float>(4));
  args.beta = Upload({3}, std::vector<float>(3));
  args.y = Unwritten({2, 3});
  args.mean = Unwritten({2});
  args.rstd = Unwritten({2});
  ExpectInvalid(kernels().LayerNorm(args), {"LayerNorm", "gamma is [4], expected [3]"});
  args.gamma = args.beta;
  args.mean = Unwritten({3});
  ExpectInvalid(kernels().LayerNorm(args), {"LayerNorm", "mean is [3], expected 2 elements"});
  args.mean = args.rstd;
  args.residual = args.x;
  ExpectInvalid(kernels().LayerNorm(args), {"LayerNorm", "sum is undefined"});

  RmsNormBackwardArgs backward;
  backward.x = args.x;
  backward.dy = Upload({3, 3}, std::vector<float>(9));
  backward.gamma = args.gamma;
  backward.rstd = args.rstd;
  backward.dx = args.x;
  ExpectInvalid(kernels().RmsNormBackward(backward),
                {"RmsNormBackward", "dy is [3, 3], expected [2, 3]"});
}

}  // namespace zeroth::testing
