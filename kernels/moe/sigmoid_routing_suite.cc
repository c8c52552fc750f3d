// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares routing by sigmoid scores and a bias with its definition in float64.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/moe/moe.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The weights of the chosen experts of one token.
std::vector<double> WeightsOf(const double* logits, const int32_t* chosen, int64_t top_k,
                              const RouteWeights& how) {
  std::vector<double> weights;
  for (int64_t k = 0; k < top_k; ++k) weights.push_back(Sigmoid(logits[chosen[k]]));
  const double sum = how.normalize ? std::accumulate(weights.begin(), weights.end(), 0.0) : 1.0;
  for (double& weight : weights) weight *= static_cast<double>(how.scale) / sum;
  return weights;
}

}  // namespace

class SigmoidRoutingSuite : public KernelsSuite {
 protected:
  Tensor Ints(const Shape& shape) {
    return UploadTokens(shape, std::vector<int32_t>(static_cast<size_t>(shape.numel()), -7));
  }
  struct Run {
    Tensor logits;
    Tensor weights;
    std::vector<int32_t> chosen;
    Tensor experts;
  };
  Run Route(const std::vector<float>& logits, int64_t experts, int64_t top_k,
            const RouteWeights& how, const std::vector<float>& bias, DType dtype) {
    const int64_t tokens = static_cast<int64_t>(logits.size()) / experts;
    RouteArgs args;
    args.logits = Upload({tokens, experts}, logits, dtype);
    args.how = how;
    if (!bias.empty()) args.bias = Upload({experts}, bias);
    args.weights = Unwritten({tokens, top_k});
    args.routing = {Ints({tokens, top_k}), Ints({tokens, top_k}), Ints({experts + 1})};
    const absl::Status status = kernels::Route(kernels(), args);
    EXPECT_TRUE(status.ok()) << status;
    return {args.logits, args.weights, *args.routing.experts.ToHost<int32_t>(),
            args.routing.experts};
  }
};

TEST_P(SigmoidRoutingSuite, ChoosesByScoreAndBiasAndWeighsByScore) {
  for (int i = 0; i < 48; ++i) {
    const int64_t tokens = RandomSize(1, 60);
    const int64_t experts = RandomSize(1, 40);
    const int64_t top_k = RandomSize(1, std::min<int64_t>(experts, 8));
    const DType dtype = kElementTypes[i % 3];
    const RouteWeights how = {ExpertScores::kSigmoid, i % 2 == 0, i % 4 < 2 ? 1.0f : 2.5f};
    const std::vector<float> logits = RoundTo(dtype, RandomNormal(tokens * experts, 2.0f));
    const std::vector<float> bias = i % 8 < 5 ? RandomNormal(experts, 0.3f) : std::vector<float>();
    const Run run = Route(logits, experts, top_k, how, bias, dtype);
    std::vector<double> exact = ToDouble(logits);
    std::vector<double> weights, slopes;
    const std::vector<float> dweights = RandomNormal(tokens * top_k);
    for (int64_t t = 0; t < tokens; ++t) {
      double* const row = exact.data() + t * experts;
      const int32_t* const chosen = run.chosen.data() + t * top_k;
      const auto key = [&](int64_t e) {
        return bias.empty() ? row[e] : Sigmoid(row[e]) + static_cast<double>(bias[e]);
      };
      // In order, and none of the others is larger, beyond what fp32 resolves.
      constexpr double kResolution = 2e-7;
      std::vector<bool> is_chosen(static_cast<size_t>(experts));
      for (int64_t k = 0; k < top_k; ++k) {
        is_chosen[static_cast<size_t>(chosen[k])] = true;
        if (k > 0) {
          EXPECT_LE(key(chosen[k]), key(chosen[k - 1]) + kResolution);
        }
      }
      EXPECT_EQ(std::count(is_chosen.begin(), is_chosen.end(), true), top_k);
      for (int64_t e = 0; e < experts; ++e) {
        if (!is_chosen[static_cast<size_t>(e)]) {
          EXPECT_LE(key(e), key(chosen[top_k - 1]) + kResolution);
        }
      }
      const auto loss = [&] {
        const std::vector<double> w = WeightsOf(row, chosen, top_k, how);
        double sum = 0;
        for (int64_t k = 0; k < top_k; ++k) {
          sum += w[static_cast<size_t>(k)] * static_cast<double>(dweights[t * top_k + k]);
        }
        return sum;
      };
      const std::vector<double> expected = WeightsOf(row, chosen, top_k, how);
      weights.insert(weights.end(), expected.begin(), expected.end());
      for (int64_t e = 0; e < experts; ++e) {
        constexpr double kStep = 1e-6;
        const double before = row[e];
        row[e] = before + kStep;
        const double above = loss();
        row[e] = before - kStep;
        const double below = loss();
        row[e] = before;
        slopes.push_back((above - below) / (2 * kStep));
      }
    }
    ExpectClose(Download(run.weights), weights, 2e-6, 1e-30, "weights");
    RouteBackwardArgs back;
    back.logits = run.logits;
    back.how = how;
    back.experts = run.experts;
    back.dweights = Upload({tokens, top_k}, dweights);
    back.dlogits = Unwritten({tokens, experts}, dtype);
    ASSERT_TRUE(kernels::RouteBackward(kernels(), back).ok());
    ExpectCloseIn(dtype, Download(back.dlogits), slopes, 3e-6, 2e-6, "dlogits");
    if (HasFailure()) return;
  }
}

// Scores of 20 and 30 are both 1 in fp32: the larger logit comes first, with a bias of zeros as
// without one. A bias decides where it is larger than what the scores differ by.
TEST_P(SigmoidRoutingSuite, EqualScoresAreOrderedByLogitsThenNumbers) {
  const std::vector<float> logits = {20.0f, 30.0f, 0.0f, 30.0f, -200.0f, -150.0f, -300.0f, -150.0f};
  const RouteWeights how = {ExpertScores::kSigmoid, true, 1.0f};
  const std::vector<int32_t> expected = {1, 3, 0, 1, 3, 0};
  for (const std::vector<float>& bias : {std::vector<float>(), std::vector<float>(4, 0.0f)}) {
    const Run run = Route(logits, 4, 3, how, bias, DType::kFloat32);
    EXPECT_EQ(run.chosen, expected);
    // Scores that all underflow leave weights of 0.
    EXPECT_EQ(Download(run.weights)[3], 0.0f);
  }
  const Run moved = Route(logits, 4, 1, how, {0.0f, 0.0f, 0.75f, 0.0f}, DType::kFloat32);
  EXPECT_EQ(moved.chosen, (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(Download(moved.weights)[0], 1.0f);
}

TEST_P(SigmoidRoutingSuite, RefusesABiasThatDoesNotFit) {
  RouteArgs args;
  args.logits = Unwritten({4, 3});
  args.weights = Unwritten({4, 2});
  args.routing = {Ints({4, 2}), Ints({4, 2}), Ints({4})};
  args.bias = Unwritten({3});
  ExpectInvalid(kernels::Route(kernels(), args), {"Route", "bias", "softmax"});
  args.how.scores = ExpertScores::kSigmoid;
  args.bias = Unwritten({4});
  ExpectInvalid(kernels::Route(kernels(), args), {"Route", "bias", "[4]", "[3]"});
}

INSTANTIATE_TEST_SUITE_P(Devices, SigmoidRoutingSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
