// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/kernels/moe/testing/moe_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

using reference::RouteShape;

class MoeSuite : public KernelsSuite {
 protected:
  RouteShape RandomShape() {
    RouteShape shape;
    shape.tokens = RandomSize(0, 70);
    shape.experts = RandomSize(1, 40);
    shape.top_k = RandomSize(1, std::min<int64_t>(shape.experts, 9));
    shape.normalize = RandomSize(0, 1) == 1;
    return shape;
  }
  Tensor UnwrittenInts(const Shape& shape) {
    return UploadTokens(shape, std::vector<int32_t>(static_cast<size_t>(shape.numel()), -7));
  }
  std::vector<int32_t> Ints(const Tensor& tensor) { return *tensor.ToHost<int32_t>(); }

  struct Run {
    Tensor logits;
    Tensor weights;
    Routing routing;
  };
  Run RunRoute(const RouteShape& shape, const std::vector<float>& logits, DType dtype) {
    RouteArgs args;
    args.logits = Upload({shape.tokens, shape.experts}, logits, dtype);
    args.how.normalize = shape.normalize;
    args.weights = Unwritten({shape.tokens, shape.top_k});
    args.routing.experts = UnwrittenInts({shape.tokens, shape.top_k});
    args.routing.rows = UnwrittenInts({shape.tokens, shape.top_k});
    args.routing.offsets = UnwrittenInts({shape.experts + 1});
    const absl::Status status = kernels::Route(kernels(), args);
    EXPECT_TRUE(status.ok()) << status;
    return {args.logits, args.weights, args.routing};
  }
  // Routes random tokens, so that some experts get none.
  reference::Routed RandomRouting(const RouteShape& shape) {
    std::vector<double> logits = ToDouble(RandomNormal(shape.tokens * shape.experts));
    for (int64_t i = 0; i < shape.tokens * shape.experts; ++i) {
      if (i % shape.experts % 3 == 1) logits[static_cast<size_t>(i)] -= 20;
    }
    return reference::Route(shape, logits);
  }
};

TEST_P(MoeSuite, RoutesToTheMostProbable) {
  for (int i = 0; i < 60; ++i) {
    const RouteShape shape = RandomShape();
    const DType dtype = kElementTypes[i % 3];
    const std::vector<float> logits =
        RoundTo(dtype, RandomNormal(shape.tokens * shape.experts, i % 2 == 0 ? 1.0f : 10.0f));
    const Run run = RunRoute(shape, logits, dtype);
    const reference::Routed expected = reference::Route(shape, ToDouble(logits));
    EXPECT_EQ(Ints(run.routing.experts), expected.experts);
    EXPECT_EQ(Ints(run.routing.rows), expected.rows);
    EXPECT_EQ(Ints(run.routing.offsets), expected.offsets);
    ExpectClose(Download(run.weights), expected.weights, 2e-6, 1e-30, "weights");
    const std::vector<float> dweights = RandomNormal(shape.tokens * shape.top_k);
    RouteBackwardArgs back;
    back.logits = run.logits;
    back.how.normalize = shape.normalize;
    back.experts = run.routing.experts;
    back.dweights = Upload({shape.tokens, shape.top_k}, dweights);
    back.dlogits = Unwritten({shape.tokens, shape.experts}, dtype);
    ASSERT_TRUE(kernels::RouteBackward(kernels(), back).ok());
    ExpectCloseIn(dtype, Download(back.dlogits),
                  reference::RouteBackward(shape, ToDouble(logits), ToDouble(dweights)), 2e-6,
                  // With one expert per token, all terms, a few times 1, cancel.
                  1e-6, "dlogits");
    if (HasFailure()) return;
  }
}

TEST_P(MoeSuite, EqualLogitsGoToTheLowerNumberAndNanIsNotHidden) {
  const RouteShape shape{3, 6, 2, true};
  std::vector<float> logits(18, 0.5f);
  logits[6 + 4] = 2.0f;
  logits[12 + 1] = std::numeric_limits<float>::quiet_NaN();
  const Run run = RunRoute(shape, logits, DType::kFloat32);
  const std::vector<int32_t> experts = Ints(run.routing.experts);
  EXPECT_EQ(std::vector<int32_t>(experts.begin(), experts.begin() + 4),
            (std::vector<int32_t>{0, 1, 4, 0}));
  EXPECT_NE(experts[4], experts[5]) << "two experts, whatever the logits";
  const std::vector<float> weights = Download(run.weights);
  EXPECT_EQ(weights[0], 0.5f);
  EXPECT_TRUE(std::isnan(weights[4]) && std::isnan(weights[5]));
}

// Probabilities that are equal as floats, or underflow even as doubles, do not decide. Their
// weights and gradients may be zeros, and are right.
TEST_P(MoeSuite, ExpertsAreChosenByTheirLogits) {
  const std::vector<float> logits = {
      1.0f,  100.0f,  1.0000001f, 0.5f,    // equal probabilities of 1 and 1.0000001
      0.0f,  3.0f,    120.0f,     300.0f,  // 0 and 3 underflow in fp32, as 120 does
      10.0f, 500.0f,  2000.0f,    900.0f,  // in fp64, too
      7.0f,  -300.0f, 7.0f,       -200.0f,
  };
  const std::vector<int32_t> expected = {1, 2, 0, 3, 2, 1, 2, 3, 1, 0, 2, 3};
  // In 16 bits, 1.0000001 is 1.
  std::vector<int32_t> expected_of_16_bits = expected;
  std::swap(expected_of_16_bits[1], expected_of_16_bits[2]);
  for (const bool normalize : {false, true}) {
    const RouteShape shape{4, 4, 3, normalize};
    for (const DType dtype : kElementTypes) {
      const std::vector<float> rounded = RoundTo(dtype, logits);
      const Run run = RunRoute(shape, rounded, dtype);
      const reference::Routed reference = reference::Route(shape, ToDouble(rounded));
      EXPECT_EQ(reference.experts, dtype == DType::kFloat32 ? expected : expected_of_16_bits);
      EXPECT_EQ(Ints(run.routing.experts), reference.experts) << DTypeName(dtype);
      ExpectClose(Download(run.weights), reference.weights, 2e-6, 1e-30, "weights");
      const std::vector<float> dweights = RandomNormal(shape.tokens * shape.top_k);
      RouteBackwardArgs back;
      back.logits = run.logits;
      back.how.normalize = normalize;
      back.experts = run.routing.experts;
      back.dweights = Upload({shape.tokens, shape.top_k}, dweights);
      back.dlogits = Unwritten({shape.tokens, shape.experts}, dtype);
      ASSERT_TRUE(kernels::RouteBackward(kernels(), back).ok());
      ExpectCloseIn(dtype, Download(back.dlogits),
                    reference::RouteBackward(shape, ToDouble(rounded), ToDouble(dweights)), 2e-6,
                    1e-6, "dlogits");
    }
  }
}

// The loss is compared with its definition in float64, and its gradient with central differences.
TEST_P(MoeSuite, RouterZLossIsTheSquareOfTheLogSumExp) {
  const auto loss_of = [](const double* row, int64_t experts) {
    const double max = *std::max_element(row, row + experts);
    double sum = 0;
    for (int64_t e = 0; e < experts; ++e) sum += std::exp(row[e] - max);
    const double z = max + std::log(sum);
    return z * z;
  };
  for (int i = 0; i < 30; ++i) {
    const RouteShape shape = RandomShape();
    const DType dtype = kElementTypes[i % 3];
    const float scale = i % 2 == 0 ? 1.0f : 0.3f;
    // Logits of 100 would overflow without the largest being subtracted.
    const std::vector<float> logits =
        RoundTo(dtype, RandomNormal(shape.tokens * shape.experts, i % 4 < 2 ? 1.0f : 40.0f));
    std::vector<double> exact = ToDouble(logits);
    std::vector<double> losses, slopes;
    for (int64_t t = 0; t < shape.tokens; ++t) {
      double* const row = exact.data() + t * shape.experts;
      losses.push_back(static_cast<double>(scale) * loss_of(row, shape.experts));
      for (int64_t e = 0; e < shape.experts; ++e) {
        constexpr double kStep = 1e-5;
        const double before = row[e];
        row[e] = before + kStep;
        const double above = loss_of(row, shape.experts);
        row[e] = before - kStep;
        const double below = loss_of(row, shape.experts);
        row[e] = before;
        slopes.push_back(static_cast<double>(scale) * (above - below) / (2 * kStep));
      }
    }
    RouterZLossArgs args;
    args.logits = Upload({shape.tokens, shape.experts}, logits, dtype);
    args.scale = scale;
    args.losses = Unwritten({shape.tokens});
    ASSERT_TRUE(kernels::RouterZLoss(kernels(), args).ok());
    ExpectClose(Download(args.losses), losses, 3e-6, 3e-6, "losses");
    args.losses = Tensor();
    args.dlogits = Unwritten({shape.tokens, shape.experts}, dtype);
    ASSERT_TRUE(kernels::RouterZLoss(kernels(), args).ok());
    ExpectCloseIn(dtype, Download(args.dlogits), slopes, 3e-6, 2e-6, "dlogits");
    args.dlogits = Unwritten({shape.tokens, shape.experts + 1}, dtype);
    ExpectInvalid(kernels::RouterZLoss(kernels(), args), {"RouterZLoss", "dlogits"});
    if (HasFailure()) return;
  }
}

TEST_P(MoeSuite, CountsTheTokensOfASequence) {
  for (int i = 0; i < 30; ++i) {
    const int64_t sequences = RandomSize(1, 5);
    RouteShape shape = RandomShape();
    const int64_t length = shape.tokens + 1;
    shape.tokens = sequences * length;
    const reference::Routed routed = RandomRouting(shape);
    const float scale = i % 2 == 0 ? 1.0f : 0.3f;
    std::vector<double> expected(static_cast<size_t>(sequences * shape.experts));
    for (size_t pair = 0; pair < routed.experts.size(); ++pair) {
      const int64_t sequence = static_cast<int64_t>(pair) / (length * shape.top_k);
      expected[static_cast<size_t>(sequence * shape.experts + routed.experts[pair])] += scale;
    }
    CountExpertsArgs args;
    args.experts = UploadTokens({shape.tokens, shape.top_k}, routed.experts);
    args.sequence = length;
    args.scale = scale;
    args.counts = Unwritten({sequences, shape.experts});
    ASSERT_TRUE(kernels::CountExperts(kernels(), args).ok());
    ExpectClose(Download(args.counts), expected, 1e-6, 0, "counts");
    args.sequence = length * sequences + 1;
    ExpectInvalid(kernels::CountExperts(kernels(), args), {"CountExperts", "sequence", "divisor"});
    if (HasFailure()) return;
  }
}

TEST_P(MoeSuite, TokensGoToTheirRowsAndBack) {
  for (int i = 0; i < 40; ++i) {
    RouteShape shape = RandomShape();
    const DType dtype = kElementTypes[i % 3];
    const int64_t dim = RandomSize(1, 300);
    const int64_t pairs = shape.tokens * shape.top_k;
    const reference::Routed routed = RandomRouting(shape);
    const std::vector<float> x = RoundTo(dtype, RandomNormal(shape.tokens * dim));
    const std::vector<float> y = RoundTo(dtype, RandomNormal(pairs * dim));
    const std::vector<float> w = RandomNormal(pairs);
    const bool weighted = i % 2 == 0;
    const Tensor rows = UploadTokens({shape.tokens, shape.top_k}, routed.rows);
    const Tensor weights = weighted ? Upload({shape.tokens, shape.top_k}, w) : Tensor();
    const Tensor tokens = Upload({shape.tokens, dim}, x, dtype);
    const Tensor grouped = Unwritten({pairs, dim}, dtype);
    ASSERT_TRUE(kernels::Scatter(kernels(), {tokens, rows, weights, grouped}).ok());
    std::vector<double> scattered(static_cast<size_t>(pairs * dim));
    std::vector<double> combined = ToDouble(x);
    std::vector<double> dots(static_cast<size_t>(pairs));
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const double weight = weighted ? w[pair] : 1.0;
      for (int64_t c = 0; c < dim; ++c) {
        const int64_t token = pair / shape.top_k * dim + c;
        const int64_t row = routed.rows[pair] * dim + c;
        scattered[row] = weight * x[token];
        combined[token] += weight * y[row];
        dots[pair] += static_cast<double>(x[token]) * y[row];
      }
    }
    ExpectCloseIn(dtype, Download(grouped), scattered, 1e-7, 0, "scattered");
    const Tensor back = Upload({pairs, dim}, y, dtype);
    const Tensor dweights = Unwritten({shape.tokens, shape.top_k});
    ASSERT_TRUE(kernels::RowDots(kernels(), {tokens, back, rows, dweights}).ok());
    ExpectClose(Download(dweights), dots, 3e-6, 1e-6, "dweights");
    CombineArgs combine{back, rows, weights, tokens, /*accumulate=*/true};
    ASSERT_TRUE(kernels::Combine(kernels(), combine).ok());
    ExpectCloseIn(dtype, Download(tokens), combined, 1e-6, 1e-6, "combined");
    combine.tokens = Unwritten({shape.tokens, dim}, dtype);
    combine.accumulate = false;
    for (size_t t = 0; t < combined.size(); ++t) combined[t] -= x[t];
    ASSERT_TRUE(kernels::Combine(kernels(), combine).ok());
    ExpectCloseIn(dtype, Download(combine.tokens), combined, 1e-6, 1e-6, "combined anew");
    if (HasFailure()) return;
  }
}

// Returns [rows, cols] with `more` columns of `value` on the right.
template <typename T>
std::vector<T> Widened(const std::vector<T>& matrix, int64_t rows, int64_t cols, int64_t more,
                       T value = T(0)) {
  std::vector<T> wide;
  for (int64_t r = 0; r < rows; ++r) {
    wide.insert(wide.end(), matrix.begin() + r * cols, matrix.begin() + (r + 1) * cols);
    wide.insert(wide.end(), static_cast<size_t>(more), value);
  }
  return wide;
}

TEST_P(MoeSuite, MatmulsOfEachExpertsRows) {
  for (int i = 0; i < 30; ++i) {
    // On CUDA one launch takes up to 128 experts.
    const bool many_experts = i % 8 == 2;
    const RouteShape shape = many_experts ? RouteShape{70, 130, 4} : RandomShape();
    const DType dtype = kElementTypes[i % 3];
    const DType grad_dtype = kElementTypes[i / 3 % 3];
    if (dtype != DType::kFloat32 && grad_dtype != DType::kFloat32 && dtype != grad_dtype) continue;
    // Sizes of whole packs of 16 bytes, for tensor cores, and any others.
    const bool packs = i % 5 < 3;
    const int64_t k = packs ? 8 * RandomSize(1, 16) : RandomSize(1, 50);
    const int64_t n = packs ? 8 * RandomSize(1, 20) : RandomSize(1, 50);
    const bool transpose_b = i % 2 == 0;
    // Results of another type, and matrices of experts that are columns of wider ones.
    const DType out_dtype = i % 2 == 1 ? grad_dtype : dtype;
    const int64_t beside = i % 5 == 0 ? 3 : 0;
    const reference::Routed routed = RandomRouting(shape);
    const int64_t rows = shape.tokens * shape.top_k;
    if (many_experts) {
      ASSERT_LT(routed.offsets[128], rows);
    }
    const std::vector<float> a = RoundTo(dtype, RandomNormal(rows * k));
    const std::vector<float> dc = RoundTo(dtype, RandomNormal(rows * n));
    // Side by side with something else, as gate and up are.
    const Tensor wide = Upload({rows, n + 3}, std::vector<float>((n + 3) * rows, 1.0f), out_dtype);
    GroupedGemmArgs gemm;
    gemm.offsets = UploadTokens({shape.experts + 1}, routed.offsets);
    gemm.a = Upload({rows, k}, a, dtype);
    gemm.transpose_b = transpose_b;
    gemm.c = Matrix(wide).Columns(2, n);
    gemm.accumulate = i % 4 < 2;
    const bool has_biases = !gemm.accumulate && i % 8 < 6;
    GroupedGradientArgs gradient;
    gradient.offsets = gemm.offsets;
    gradient.a = gemm.a;
    gradient.b = Upload({rows, n}, dc, dtype);
    std::vector<double> expected(static_cast<size_t>(rows * n));
    std::vector<std::vector<double>> expected_gradients;
    for (int64_t e = 0; e < shape.experts; ++e) {
      const std::vector<float> b = RoundTo(dtype, RandomNormal(k * n));
      const int64_t b_rows = transpose_b ? n : k;
      const int64_t b_cols = transpose_b ? k : n;
      gemm.b.push_back(
          Matrix(Upload({b_rows, b_cols + beside}, Widened(b, b_rows, b_cols, beside), dtype))
              .Columns(0, b_cols));
      const int64_t first = routed.offsets[e];
      const int64_t count = routed.offsets[e + 1] - first;
      const std::vector<double> part = reference::Matmul(
          count, n, k, [&](int64_t r, int64_t c) { return double{a[(first + r) * k + c]}; },
          [&](int64_t r, int64_t c) { return double{b[transpose_b ? c * k + r : r * n + c]}; });
      std::copy(part.begin(), part.end(), expected.begin() + first * n);
      if (has_biases) {
        const std::vector<float> bias = RoundTo(dtype, RandomNormal(n));
        gemm.biases.push_back(Upload({n}, bias, dtype));
        for (int64_t at = first * n; at < (first + count) * n; ++at) expected[at] += bias[at % n];
      }
      const bool adds = e % 2 == 0;
      const Tensor place =
          Upload({k, n + beside}, std::vector<float>(k * (n + beside), 2.0f), grad_dtype);
      gradient.c.push_back({Matrix(place).Columns(0, n), adds});
      expected_gradients.push_back(reference::Matmul(
          k, n, count, [&](int64_t r, int64_t c) { return double{a[(first + c) * k + r]}; },
          [&](int64_t r, int64_t c) { return double{dc[(first + r) * n + c]}; }));
      if (adds) {
        for (double& x : expected_gradients.back()) x += 2.0;
      }
    }
    ASSERT_TRUE(kernels::GroupedGemm(kernels(), gemm).ok());
    const std::vector<float> out = Download(wide);
    std::vector<float> columns;
    for (int64_t r = 0; r < rows; ++r) {
      EXPECT_EQ(out[r * (n + 3) + 1], 1.0f);
      EXPECT_EQ(out[r * (n + 3) + n + 2], 1.0f);
      for (int64_t c = 0; c < n; ++c) columns.push_back(out[r * (n + 3) + 2 + c]);
    }
    // The same bits by two calls, each for some of the experts.
    const Tensor again = Upload({rows, n + 3}, std::vector<float>((n + 3) * rows, 1.0f), out_dtype);
    for (const bool second : {false, true}) {
      const int64_t begin = second ? shape.experts / 2 : 0;
      const int64_t end = second ? shape.experts : shape.experts / 2;
      GroupedGemmArgs some = gemm;
      some.first = begin;
      some.b.assign(gemm.b.begin() + begin, gemm.b.begin() + end);
      if (has_biases) some.biases.assign(gemm.biases.begin() + begin, gemm.biases.begin() + end);
      some.c = Matrix(again).Columns(2, n);
      ASSERT_TRUE(kernels::GroupedGemm(kernels(), some).ok());
    }
    EXPECT_EQ(Download(again), out);
    if (gemm.accumulate) {
      for (double& x : expected) x += 1.0;
    }
    ExpectCloseIn(out_dtype, columns, expected, 2e-6, 2e-5, "product");
    ASSERT_TRUE(kernels::GroupedGradient(kernels(), gradient).ok());
    for (int64_t e = 0; e < shape.experts; ++e) {
      const std::vector<float> c = Download(gradient.c[e].matrix.tensor);
      ExpectCloseIn(grad_dtype, c, Widened(expected_gradients[e], k, n, beside, 2.0), 2e-6, 1e-5,
                    "gradient");
    }
    if (HasFailure()) return;
  }
}

// Experts without rows, more rows than a block sums, columns of a wider matrix, and more experts
// than the 128 that one launch takes on CUDA.
TEST_P(MoeSuite, BiasGradientsOfEachExpertsRows) {
  for (const TypePair& types : kTypePairs) {
    for (const int64_t n : {1, 40, 133}) {
      constexpr int kExperts = 130;
      std::vector<int32_t> offsets = {0, 3, 3, 203, 204};
      offsets.resize(kExperts, 204);
      offsets.push_back(209);
      const int64_t rows = offsets.back();
      const int64_t wide = n + 5;
      const std::vector<float> dy = RoundTo(types.dtype, RandomNormal(rows * wide));
      GroupedBiasGradientArgs args;
      args.offsets = UploadTokens({kExperts + 1}, offsets);
      args.dy = Matrix(Upload({rows, wide}, dy, types.dtype)).Columns(2, n);
      for (int e = 0; e < kExperts; ++e) {
        args.outputs.push_back(
            {Upload({n}, std::vector<float>(static_cast<size_t>(n), 2.0f), types.grad_dtype),
             /*accumulate=*/e % 2 == 0});
      }
      ASSERT_TRUE(kernels::GroupedBiasGradient(kernels(), args).ok());
      for (size_t e = 0; e < args.outputs.size(); ++e) {
        std::vector<double> expected(static_cast<size_t>(n), e % 2 == 0 ? 2.0 : 0.0);
        for (int64_t row = offsets[e]; row < offsets[e + 1]; ++row) {
          for (int64_t c = 0; c < n; ++c) expected[c] += dy[row * wide + 2 + c];
        }
        ExpectCloseIn(types.grad_dtype, Download(args.outputs[e].dbias), expected, 2e-6, 1e-5,
                      "dbias");
      }
    }
  }
}

TEST_P(MoeSuite, RefusesWhatDoesNotFit) {
  RouteArgs args;
  args.logits = Unwritten({4, 3});
  args.weights = Unwritten({4, 5});
  args.routing = {UnwrittenInts({4, 5}), UnwrittenInts({4, 5}), UnwrittenInts({4})};
  ExpectInvalid(kernels::Route(kernels(), args), {"Route", "weights has 5 experts", "1 to 3"});
  args.weights = Unwritten({4, 2});
  ExpectInvalid(kernels::Route(kernels(), args), {"Route", "experts", "[4, 5]"});
  args.routing = {UnwrittenInts({4, 2}), UnwrittenInts({4, 2}), UnwrittenInts({3})};
  ExpectInvalid(kernels::Route(kernels(), args), {"Route", "offsets", "[3]", "[4]"});
  GroupedGemmArgs gemm;
  gemm.offsets = UnwrittenInts({3});
  gemm.a = Unwritten({4, 3});
  gemm.c = Unwritten({4, 2});
  gemm.b = {Unwritten({3, 2}), Unwritten({2, 3})};
  ExpectInvalid(kernels::GroupedGemm(kernels(), gemm), {"GroupedGemm", "b", "[2, 3]", "[3, 2]"});
  gemm.b[1] = Matrix(Unwritten({3, 4})).Columns(1, 2);
  ExpectInvalid(kernels::GroupedGemm(kernels(), gemm),
                {"GroupedGemm", "b", "rows 4 apart, expected 2"});
  gemm.b[1] = gemm.b[0];
  gemm.biases = {Unwritten({2})};
  ExpectInvalid(kernels::GroupedGemm(kernels(), gemm), {"biases are 1", "2: one for each expert"});
  gemm.biases.push_back(Unwritten({3}));
  ExpectInvalid(kernels::GroupedGemm(kernels(), gemm), {"biases is [3], expected [2]"});
  for (const int64_t first : {int64_t{-1}, int64_t{1}, std::numeric_limits<int64_t>::max()}) {
    gemm.first = first;
    ExpectInvalid(kernels::GroupedGemm(kernels(), gemm),
                  {"count is 2 from " + std::to_string(first) + " on, expected a part of 2"});
  }
  // Fewer matrices than experts are a part only if the call says so.
  gemm.first.reset();
  gemm.b.pop_back();
  ExpectInvalid(kernels::GroupedGemm(kernels(), gemm), {"offsets is [3], expected [2]"});
  GroupedGemmArgs none = gemm;
  none.offsets = UnwrittenInts({1});
  none.b.clear();
  ExpectInvalid(kernels::GroupedGemm(kernels(), none), {"offsets have no experts"});
  GroupedBiasGradientArgs bias{gemm.offsets, gemm.a, {{Unwritten({3})}, {Unwritten({2})}}};
  ExpectInvalid(kernels::GroupedBiasGradient(kernels(), bias), {"dbias is [2], expected [3]"});
}

INSTANTIATE_TEST_SUITE_P(Devices, MoeSuite, ::testing::ValuesIn(TestedDevices()));

TEST(MoeReference, BackwardIsTheGradientOfForward) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (const bool normalize : {false, true}) {
    const RouteShape shape{3, 5, 2, normalize};
    std::vector<double> logits(15);
    std::vector<double> dweights(6);
    for (double& x : logits) x = normal(random);
    for (double& x : dweights) x = normal(random);
    const auto loss = [&](const std::vector<double>& x) {
      const std::vector<double> weights = reference::Route(shape, x).weights;
      double sum = 0;
      for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * dweights[i];
      return sum;
    };
    ExpectGradient(loss, logits, reference::RouteBackward(shape, logits, dweights));
  }
}

}  // namespace zeroth::testing
