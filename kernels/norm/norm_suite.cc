// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <tuple>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/norm/norm.h"
#include "zeroth/kernels/norm/testing/norm_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class NormSuite : public KernelsSuite {
 protected:
  // A random case, the same for both norms. All values are rounded to their types.
  struct Problem {
    int64_t rows = 0;
    int64_t dim = 0;
    DType dtype = DType::kFloat32;
    DType grad_dtype = DType::kFloat32;
    bool fused = false;       // with the residual addition
    bool in_place = false;    // which overwrites an operand
    bool accumulate = false;  // all gradients
    bool frozen = false;      // one parameter has no gradient
    std::vector<float> x;
    std::vector<float> residual;
    float offset = 0.0f;  // of gamma
    std::vector<float> gamma;
    std::vector<float> beta;
    std::vector<float> dy;
    std::vector<float> dx_before;
    std::vector<float> dgamma_before;
    std::vector<float> dbeta_before;
    std::vector<float> normalised;  // x, or x + residual as stored
  };

  // Returns case `index`: its flags and types follow from the index, all else is random.
  Problem RandomProblem(int index);
  static std::vector<double> Scales(const Problem& p);
  void CheckNorm(const Problem& p, bool is_centred);

 private:
  // Return a gradient's tensor before the call; dx may be dy.
  Tensor GradientBefore(const Problem& p, const Shape& shape, const std::vector<float>& before,
                        DType dtype);
  Tensor InputGradientBefore(const Problem& p, const Tensor& dy);
};

namespace {

constexpr float kEps = 1e-5f;

constexpr int kCases = 80;

// Returns the relative error of a row's scale. A device may add a row's squares one by one, and
// each addition rounds.
double ScaleTolerance(int64_t dim) {
  constexpr double kRoundOff = 1.0 / (1 << 24);
  return 1e-6 + kRoundOff * std::sqrt(static_cast<double>(dim));
}

void AddTo(std::vector<double>& values, const std::vector<float>& before) {
  for (size_t i = 0; i < values.size(); ++i) values[i] += before[i];
}

}  // namespace

// Returns gamma + offset exactly, which the element type may not hold.
std::vector<double> NormSuite::Scales(const Problem& p) {
  std::vector<double> scales = ToDouble(p.gamma);
  for (double& scale : scales) scale += p.offset;
  return scales;
}

NormSuite::Problem NormSuite::RandomProblem(int index) {
  Problem p;
  p.rows = index == 0 ? 0 : RandomSize(1, 90);
  p.dim = RandomSize(1, 130);
  // Devices divide long rows, and process rows of whole packs differently from others. The
  // reference's time grows with the square of a row's length, so there are few of the longest.
  if (index % 7 == 3) {
    const bool is_longest = index % 5 < 2;
    p.rows = is_longest ? RandomSize(1, 8) : RandomSize(64, 90);
    p.dim = 8 * RandomSize(1, is_longest ? 1100 : 130);
    // Row lengths on both sides of the longest row that a block of a GPU holds.
    if (index == 10) p.dim = 4096;
    if (index == 31) p.dim = 8192;
    if (index == 45) p.dim = 8200;
  }
  p.dtype = kElementTypes[index % 2];
  p.grad_dtype = kElementTypes[index / 2 % 2];
  p.fused = index / 4 % 2 == 0;
  p.in_place = index / 8 % 2 == 0;
  p.accumulate = index % 3 == 0;
  p.frozen = index % 5 == 0;
  p.offset = index % 3 == 1 ? 1.0f : 0.0f;
  for (std::vector<float>* matrix : {&p.x, &p.residual, &p.dy, &p.dx_before})
    *matrix = RoundTo(p.dtype, RandomNormal(p.rows * p.dim));
  for (std::vector<float>* vector : {&p.gamma, &p.beta})
    *vector = RoundTo(p.dtype, RandomNormal(p.dim));
  for (std::vector<float>* vector : {&p.dgamma_before, &p.dbeta_before})
    *vector = RoundTo(p.grad_dtype, RandomNormal(p.dim));
  // The elements of a short row may be nearly equal. To normalise such a row is to magnify the
  // rounding of its mean, so they are moved apart.
  if (p.dim <= 8) {
    for (size_t i = 0; i < p.x.size(); ++i) {
      p.x[i] += static_cast<int64_t>(i) % p.dim % 2 == 0 ? 8.0f : -8.0f;
    }
    p.x = RoundTo(p.dtype, p.x);
  }
  p.normalised = p.x;
  if (p.fused) {
    for (size_t i = 0; i < p.x.size(); ++i) p.normalised[i] += p.residual[i];
    p.normalised = RoundTo(p.dtype, p.normalised);
  }
  return p;
}

Tensor NormSuite::GradientBefore(const Problem& p, const Shape& shape,
                                 const std::vector<float>& before, DType dtype) {
  return p.accumulate ? Upload(shape, before, dtype) : Unwritten(shape, dtype);
}

Tensor NormSuite::InputGradientBefore(const Problem& p, const Tensor& dy) {
  return p.in_place && !p.accumulate ? dy : GradientBefore(p, dy.shape(), p.dx_before, p.dtype);
}

// For layer norm if `is_centred`, otherwise for RMS norm.
void NormSuite::CheckNorm(const Problem& p, bool is_centred) {
  const Shape shape{p.rows, p.dim};
  const double centring = is_centred ? 1e-6 : 0;  // the tolerance of what subtracts a mean
  const auto run = is_centred ? &kernels::LayerNorm : &kernels::RmsNorm;
  LayerNormArgs forward;
  forward.x = Upload(shape, p.x, p.dtype);
  if (p.fused) {
    forward.residual = Upload(shape, p.residual, p.dtype);
    forward.sum = !p.in_place  ? Unwritten(shape, p.dtype)
                  : is_centred ? forward.residual
                               : forward.x;
  }
  forward.gamma = Upload({p.dim}, p.gamma, p.dtype);
  forward.gamma_offset = p.offset;
  if (is_centred) forward.beta = Upload({p.dim}, p.beta, p.dtype);
  forward.eps = kEps;
  forward.y = Unwritten(shape, p.dtype);
  if (is_centred) forward.mean = Unwritten({p.rows});
  forward.rstd = Unwritten({p.rows});
  ASSERT_TRUE(run(kernels(), forward).ok());
  const std::vector<double> x = ToDouble(p.normalised);
  const reference::Normalised expected =
      is_centred ? reference::LayerNorm(p.rows, p.dim, x, Scales(p), ToDouble(p.beta), kEps)
                 : reference::RmsNorm(p.rows, p.dim, x, Scales(p), kEps);
  const double scaling = centring + ScaleTolerance(p.dim);
  ExpectCloseIn(p.dtype, Download(forward.y), expected.y, scaling, centring, "y");
  if (is_centred) ExpectClose(Download(forward.mean), expected.mean, 1e-6, 1e-7, "mean");
  ExpectClose(Download(forward.rstd), expected.rstd, scaling, 0, "rstd");
  if (p.fused) {
    EXPECT_EQ(Download(forward.sum), p.normalised);
  }

  LayerNormBackwardArgs backward;
  backward.dy = Upload(shape, p.dy, p.dtype);
  backward.x = Upload(shape, p.normalised, p.dtype);
  backward.gamma = forward.gamma;
  backward.gamma_offset = p.offset;
  backward.mean = forward.mean;
  backward.rstd = forward.rstd;
  backward.dx = InputGradientBefore(p, backward.dy);
  backward.accumulate_dx = p.accumulate;
  if (is_centred || !p.frozen) {
    backward.dgamma = GradientBefore(p, {p.dim}, p.dgamma_before, p.grad_dtype);
  }
  backward.accumulate_dgamma = p.accumulate;
  if (is_centred && !p.frozen) {
    backward.dbeta = GradientBefore(p, {p.dim}, p.dbeta_before, p.grad_dtype);
  }
  backward.accumulate_dbeta = p.accumulate;
  const auto run_backward = is_centred ? &kernels::LayerNormBackward : &kernels::RmsNormBackward;
  ASSERT_TRUE(run_backward(kernels(), backward).ok());
  reference::NormGradients gradients =
      is_centred ? reference::LayerNormBackward(p.rows, p.dim, ToDouble(p.dy), x, Scales(p), kEps)
                 : reference::RmsNormBackward(p.rows, p.dim, ToDouble(p.dy), x, Scales(p), kEps);
  if (p.accumulate) {
    AddTo(gradients.dx, p.dx_before);
    AddTo(gradients.dgamma, p.dgamma_before);
    if (is_centred) AddTo(gradients.dbeta, p.dbeta_before);
  }
  ExpectCloseIn(p.dtype, Download(backward.dx), gradients.dx, 4e-6, 1e-6, "dx");
  for (const auto& [name, sum, wanted] : {std::tuple("dgamma", backward.dgamma, gradients.dgamma),
                                          std::tuple("dbeta", backward.dbeta, gradients.dbeta)}) {
    if (sum.defined()) ExpectCloseIn(p.grad_dtype, Download(sum), wanted, 4e-6, 1e-6, name);
  }
}

TEST_P(NormSuite, LayerNormForwardAndBackward) {
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE(i);
    CheckNorm(RandomProblem(i), /*is_centred=*/true);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NormSuite, RmsNormForwardAndBackward) {
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE(i);
    CheckNorm(RandomProblem(i), /*is_centred=*/false);
    if (HasFatalFailure()) return;
  }
}

// A mean far from zero must not destroy the variance, as the difference of the mean square and the
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
  ASSERT_TRUE(kernels::LayerNorm(kernels(), args).ok());
  const reference::Normalised expected =
      reference::LayerNorm(1, kDim, ToDouble(x), ToDouble(gamma), ToDouble(beta), args.eps);
  // The float mean itself is off by up to an ulp of 1000 or two.
  ExpectClose(Download(args.y), expected.y, 0, 2e-4, "y");
  ExpectClose(Download(args.rstd), expected.rstd, 1e-6, 0, "rstd");
}

// Rows whose columns are divided among ranks are normalised as undivided rows.
TEST_P(NormSuite, ColumnsOfRowsWithTheSumsOfWholeRows) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t cols : {1, 7, 48, 160}) {
      SCOPED_TRACE(::testing::Message() << DTypeName(dtype) << " " << cols);
      constexpr int64_t kRows = 9;
      constexpr int64_t kParts = 3;
      const int64_t width = kParts * cols;
      const std::vector<float> x = RoundTo(dtype, RandomNormal(kRows * width));
      const std::vector<float> dy = RoundTo(dtype, RandomNormal(kRows * width));
      const std::vector<float> gamma = RoundTo(dtype, RandomNormal(width));
      constexpr float kOffset = 1.0f;
      std::vector<double> scales = ToDouble(gamma);
      for (double& scale : scales) scale += kOffset;
      const reference::Normalised expected =
          reference::RmsNorm(kRows, width, ToDouble(x), scales, kEps);
      const reference::NormGradients gradients =
          reference::RmsNormBackward(kRows, width, ToDouble(dy), ToDouble(x), scales, kEps);
      const Tensor whole_x = Upload({kRows, width}, x, dtype);
      const Tensor whole_dy = Upload({kRows, width}, dy, dtype);
      const Tensor whole_gamma = Upload({width}, gamma, dtype);
      // The sums over whole rows are the sums of the parts, added up.
      std::vector<float> squares(kRows), products(kRows);
      const Tensor sums = Unwritten({kRows});
      const auto add_parts = [&](const Tensor& rstd, std::vector<float>& totals) {
        for (int64_t part = 0; part < kParts; ++part) {
          RmsSumsArgs args;
          args.x = Matrix(whole_x).Columns(part * cols, cols);
          if (rstd.defined()) {
            args.dy = Matrix(whole_dy).Columns(part * cols, cols);
            args.gamma = Upload(
                {cols}, {gamma.begin() + part * cols, gamma.begin() + (part + 1) * cols}, dtype);
            args.gamma_offset = kOffset;
            args.rstd = rstd;
          }
          args.sums = sums;
          ASSERT_TRUE(kernels::RmsSums(kernels(), args).ok());
          const std::vector<float> some = Download(sums);
          for (size_t r = 0; r < some.size(); ++r) totals[r] += some[r];
        }
      };
      add_parts(Tensor(), squares);
      const Tensor rstd =
          Upload({kRows}, std::vector<float>(expected.rstd.begin(), expected.rstd.end()));
      add_parts(rstd, products);
      const auto columns = [&](const std::vector<double>& values, int64_t rows, int64_t part) {
        std::vector<double> some;
        for (int64_t r = 0; r < rows; ++r) {
          const auto begin = values.begin() + r * width + part * cols;
          some.insert(some.end(), begin, begin + cols);
        }
        return some;
      };
      for (int64_t part = 0; part < kParts; ++part) {
        const auto upload = [&](const std::vector<float>& values, int64_t rows) {
          const std::vector<double> some = columns(ToDouble(values), rows, part);
          return Upload({rows, cols}, std::vector<float>(some.begin(), some.end()), dtype);
        };
        RmsNormArgs forward;
        forward.x = upload(x, kRows);
        forward.gamma = upload(gamma, 1).Reshape(Shape({cols}));
        forward.gamma_offset = kOffset;
        forward.eps = kEps;
        forward.y = Unwritten({kRows, cols}, dtype);
        forward.rstd = Unwritten({kRows});
        forward.sums = Upload({kRows}, squares);
        forward.width = width;
        ASSERT_TRUE(kernels::RmsNorm(kernels(), forward).ok());
        ExpectCloseIn(dtype, Download(forward.y), columns(expected.y, kRows, part), 2e-6, 0, "y");
        ExpectClose(Download(forward.rstd), expected.rstd, 2e-6, 0, "rstd");
        RmsNormBackwardArgs backward;
        backward.x = forward.x;
        backward.dy = upload(dy, kRows);
        backward.gamma = forward.gamma;
        backward.gamma_offset = kOffset;
        backward.rstd = forward.rstd;
        backward.dx = Unwritten({kRows, cols}, dtype);
        backward.dgamma = Unwritten({cols});
        backward.sums = Upload({kRows}, products);
        backward.width = width;
        ASSERT_TRUE(kernels::RmsNormBackward(kernels(), backward).ok());
        ExpectCloseIn(dtype, Download(backward.dx), columns(gradients.dx, kRows, part), 4e-6, 2e-6,
                      "dx");
        ExpectClose(Download(backward.dgamma), columns(gradients.dgamma, 1, part), 4e-6, 2e-6,
                    "dgamma");
      }
      if (HasFailure()) return;
    }
  }
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
  ExpectInvalid(kernels::LayerNorm(kernels(), args), {"LayerNorm", "gamma is [4], expected [3]"});
  args.gamma = args.beta;
  args.mean = Unwritten({3});
  ExpectInvalid(kernels::LayerNorm(kernels(), args),
                {"LayerNorm", "mean is [3], expected 2 elements"});
  args.mean = args.rstd;
  args.residual = args.x;
  ExpectInvalid(kernels::LayerNorm(kernels(), args), {"LayerNorm", "sum is undefined"});

  args.residual = Tensor();
  args.gamma = Upload({3}, std::vector<float>(3), DType::kBFloat16);
  ExpectInvalid(kernels::LayerNorm(kernels(), args),
                {"LayerNorm", "gamma is bf16, expected fp32 as x"});
  args.gamma = args.beta;
  args.rstd = Unwritten({2}, DType::kBFloat16);
  ExpectInvalid(kernels::LayerNorm(kernels(), args), {"LayerNorm", "rstd is bf16, expected fp32"});

  LayerNormBackwardArgs types;
  types.x = args.x;
  types.dy = args.x;
  types.gamma = args.gamma;
  types.mean = args.mean;
  types.rstd = args.mean;
  types.dx = args.y;
  types.dgamma = Unwritten({3}, DType::kBFloat16);
  types.dbeta = Unwritten({3});
  ExpectInvalid(kernels::LayerNormBackward(kernels(), types),
                {"LayerNormBackward", "dbeta is fp32, expected bf16 as dgamma"});

  RmsNormBackwardArgs backward;
  backward.x = args.x;
  backward.dy = Upload({3, 3}, std::vector<float>(9));
  backward.gamma = args.gamma;
  backward.rstd = args.mean;
  backward.dx = args.x;
  ExpectInvalid(kernels::RmsNormBackward(kernels(), backward),
                {"RmsNormBackward", "dy is [3, 3], expected [2, 3]"});
  backward.dy = args.x;
  backward.dbeta = Unwritten({3});
  ExpectInvalid(kernels::RmsNormBackward(kernels(), backward),
                {"RmsNormBackward", "dbeta is given to a norm without beta"});
  args.rstd = args.mean;
  ExpectInvalid(kernels::RmsNorm(kernels(), args),
                {"RmsNorm", "beta is given to a norm without one"});
  args.beta = args.mean = Tensor();
  args.sums = Unwritten({2});
  args.width = 2;
  ExpectInvalid(kernels::RmsNorm(kernels(), args),
                {"RmsNorm", "width is 2, expected at least the 3 columns of x"});
}

INSTANTIATE_TEST_SUITE_P(Devices, NormSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
