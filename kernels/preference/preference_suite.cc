// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/preference/preference.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth {

class PreferenceSuite : public KernelsSuite {
 protected:
  // Makes a pair of two answers of one token each, with these losses.
  PreferenceLossArgs PairOfTokens(const std::vector<float>& losses) {
    PreferenceLossArgs args;
    args.losses = Upload({2}, losses);
    args.targets = UploadTokens({2}, {1, 1});
    args.pairs = UploadTokens({1, 3}, {0, 1, 2});
    args.divisor = Upload({1}, {1.0f});
    args.statistics = Unwritten({PreferenceStatistics::kCount});
    args.row_weights = Unwritten({2});
    return args;
  }
};

namespace {

constexpr int32_t kIgnored = -100;
// The losses of pairs.
constexpr PreferenceKind kKinds[] = {PreferenceKind::kDpo, PreferenceKind::kIpo,
                                     PreferenceKind::kSimpo, PreferenceKind::kOrpo,
                                     PreferenceKind::kReward};

struct Pairs {
  std::vector<int32_t> targets;
  std::vector<int32_t> ranges;  // [pairs, 3]
  std::vector<double> reference;
  int64_t count = 0;  // of pairs that are not empty
};

struct Expected {
  double loss = 0;
  double chosen = 0;
  double rejected = 0;
  double accuracy = 0;
};

double NegLogSigmoid(double x) { return std::log(1 + std::exp(-x)); }

// Computes the sums over pairs by the formulas of the papers.
Expected Reference(const PreferenceOptions& options, const Pairs& pairs,
                   const std::vector<double>& losses) {
  const auto beta = static_cast<double>(options.beta);
  const auto smoothing = static_cast<double>(options.label_smoothing);
  const auto gamma = static_cast<double>(options.gamma);
  Expected sums;
  for (size_t i = 0; i + 2 < pairs.ranges.size(); i += 3) {
    if (pairs.ranges[i] == pairs.ranges[i + 2]) continue;
    double log_p[2] = {};
    double log_r[2] = {};
    double tokens[2] = {};
    for (int32_t row = pairs.ranges[i]; row < pairs.ranges[i + 2]; ++row) {
      if (pairs.targets[static_cast<size_t>(row)] == kIgnored) continue;
      const size_t which = row < pairs.ranges[i + 1] ? 0 : 1;
      log_p[which] -= losses[static_cast<size_t>(row)];
      log_r[which] -= pairs.reference[static_cast<size_t>(row)];
      ++tokens[which];
    }
    double loss = 0;
    double reward[2] = {};
    double mean_ratio[2] = {};
    for (size_t k = 0; k < 2; ++k) {
      const double ratio = log_p[k] - (UsesReference(options.kind) ? log_r[k] : 0);
      reward[k] = beta * (UsesReference(options.kind) ? ratio : ratio / tokens[k]);
      mean_ratio[k] = ratio / tokens[k];
    }
    const double mean[2] = {log_p[0] / tokens[0], log_p[1] / tokens[1]};
    switch (options.kind) {
      case PreferenceKind::kDpo:
      case PreferenceKind::kSimpo: {
        const double z =
            reward[0] - reward[1] - (options.kind == PreferenceKind::kSimpo ? gamma : 0);
        loss = (1 - smoothing) * NegLogSigmoid(z) + smoothing * NegLogSigmoid(-z);
        break;
      }
      case PreferenceKind::kIpo:
        loss = std::pow(mean_ratio[0] - mean_ratio[1] - 1 / (2 * beta), 2);
        break;
      case PreferenceKind::kOrpo: {
        const auto odds = [](double log_prob) {
          return std::exp(log_prob) / (1 - std::exp(log_prob));
        };
        loss = -mean[0] + beta * NegLogSigmoid(std::log(odds(mean[0]) / odds(mean[1])));
        break;
      }
      case PreferenceKind::kReward: {
        const double sum = log_p[0] + log_p[1];
        loss = NegLogSigmoid(log_p[0] - log_p[1]) + static_cast<double>(options.center) * sum * sum;
        for (size_t k = 0; k < 2; ++k) reward[k] = log_p[k];
        break;
      }
      case PreferenceKind::kKto:
        ADD_FAILURE() << "not a loss of pairs";
    }
    sums.loss += loss;
    sums.chosen += reward[0];
    sums.rejected += reward[1];
    sums.accuracy += reward[0] > reward[1] ? 1 : 0;
  }
  return sums;
}

}  // namespace

TEST_P(PreferenceSuite, LossesAndDerivativesAreThoseOfThePapers) {
  for (int trial = 0; trial < 60; ++trial) {
    PreferenceOptions options;
    options.kind = kKinds[trial % 5];
    options.beta = 0.05f * static_cast<float>(RandomSize(1, 60));
    if (options.kind == PreferenceKind::kReward) {
      options.beta = 1;
      options.center = trial % 2 == 0 ? 0.3f : 0.0f;
    }
    const bool is_sigmoid =
        options.kind == PreferenceKind::kDpo || options.kind == PreferenceKind::kSimpo;
    if (is_sigmoid && trial % 3 == 0) options.label_smoothing = 0.2f;
    if (options.kind == PreferenceKind::kSimpo) options.gamma = 0.6f;
    Pairs pairs;
    const int64_t count = RandomSize(0, 5);
    const auto pad = [&](int64_t most) {
      for (int64_t i = RandomSize(0, most); i > 0; --i) pairs.targets.push_back(kIgnored);
    };
    const auto answer = [&] {
      pad(6);
      for (int64_t i = RandomSize(1, trial % 7 == 0 ? 300 : 9); i > 0; --i) {
        pairs.targets.push_back(RandomSize(0, 3) == 0 ? kIgnored : 3);
      }
      pairs.targets.push_back(3);
    };
    for (int64_t i = 0; i < count; ++i) {
      pad(3);  // rows of no pair
      pairs.ranges.push_back(static_cast<int32_t>(pairs.targets.size()));
      answer();
      pairs.ranges.push_back(static_cast<int32_t>(pairs.targets.size()));
      answer();
      pairs.ranges.push_back(static_cast<int32_t>(pairs.targets.size()));
      if (RandomSize(0, 1) == 0) pairs.ranges.insert(pairs.ranges.end(), {0, 0, 0});
    }
    pad(4);
    pairs.ranges.insert(pairs.ranges.end(), {0, 0, 0});
    const auto rows = static_cast<int64_t>(pairs.targets.size());
    std::vector<float> losses = RandomNormal(rows, 0.8f);
    std::vector<float> reference = RandomNormal(rows, 0.8f);
    for (size_t i = 0; i < losses.size(); ++i) {
      const bool counts = pairs.targets[i] != kIgnored;
      losses[i] = counts ? std::abs(losses[i]) + 0.01f : 0.0f;
      reference[i] = counts ? std::abs(reference[i]) : 0.0f;
    }
    pairs.reference = ToDouble(reference);
    constexpr float kDivisor = 1.75f;
    PreferenceLossArgs args;
    args.options = options;
    args.losses = Upload({rows}, losses);
    if (UsesReference(options.kind)) args.reference = Upload({rows}, reference);
    args.targets = UploadTokens({rows}, pairs.targets);
    const auto triples = static_cast<int64_t>(pairs.ranges.size() / 3);
    args.pairs = UploadTokens({triples, 3}, pairs.ranges);
    args.divisor = Upload({1}, {kDivisor});
    args.statistics = Unwritten({PreferenceStatistics::kCount});
    args.row_weights = Unwritten({rows});
    SCOPED_TRACE(absl::StrCat("trial ", trial, ", ", rows, " rows, ", count, " pairs"));
    const absl::Status status = kernels::PreferenceLoss(kernels(), args);
    ASSERT_TRUE(status.ok()) << status;

    const std::vector<double> at = ToDouble(losses);
    const Expected expected = Reference(options, pairs, at);
    const std::vector<float> statistics = Download(args.statistics);
    const double divisor = static_cast<double>(kDivisor);
    ExpectClose({statistics[0]}, {expected.loss / divisor}, 1e-6, 1e-6, "loss");
    ExpectClose({statistics[1]}, {expected.chosen / divisor}, 1e-6, 1e-6, "chosen");
    ExpectClose({statistics[2]}, {expected.rejected / divisor}, 1e-6, 1e-6, "rejected");
    ExpectClose({statistics[3]}, {expected.accuracy / divisor}, 1e-6, 0, "accuracy");
    const std::vector<double> weights = ToDouble(Download(args.row_weights));
    ExpectGradient(
        [&](const std::vector<double>& x) { return Reference(options, pairs, x).loss / divisor; },
        at, weights);
    if (HasFatalFailure()) return;
  }
}

// Log-probabilities so far apart that e^z overflows.
TEST_P(PreferenceSuite, LargeMarginsDoNotOverflow) {
  for (const PreferenceKind kind : {PreferenceKind::kDpo, PreferenceKind::kSimpo}) {
    for (const float large : {3000.0f, 0.0f}) {
      PreferenceLossArgs args = PairOfTokens({large, 3000.0f - large});
      args.options.kind = kind;
      args.options.beta = 1;
      if (UsesReference(kind)) args.reference = Upload({2}, {0.0f, 0.0f});
      ASSERT_TRUE(kernels::PreferenceLoss(kernels(), args).ok());
      const bool is_wrong = large > 0;  // the chosen answer is the unlikely one
      EXPECT_EQ(Download(args.statistics)[0], is_wrong ? 3000.0f : 0.0f);
      EXPECT_EQ(Download(args.statistics)[3], is_wrong ? 0.0f : 1.0f);
      EXPECT_EQ(Download(args.row_weights),
                is_wrong ? (std::vector<float>{1.0f, -1.0f}) : (std::vector<float>{0.0f, 0.0f}));
    }
  }
}

// Probabilities of 1, which an answer of one token soon has.
TEST_P(PreferenceSuite, CertainAnswersHaveFiniteOdds) {
  for (const std::vector<float>& losses :
       std::vector<std::vector<float>>{{0, 5}, {5, 0}, {0, 0}, {1e-30f, 1e-30f}, {-1e-8f, 3}}) {
    PreferenceLossArgs args = PairOfTokens(losses);
    args.options.kind = PreferenceKind::kOrpo;
    ASSERT_TRUE(kernels::PreferenceLoss(kernels(), args).ok());
    EXPECT_TRUE(std::isfinite(Download(args.statistics)[0])) << losses[0] << ", " << losses[1];
    for (const float weight : Download(args.row_weights)) EXPECT_TRUE(std::isfinite(weight));
  }
}

// Where a log-probability is held at its limit, the odds do not depend on it.
TEST_P(PreferenceSuite, OddsAtTheirLimitHaveNoSlope) {
  for (const float sure : {0.0f, 1e-9f, 9e-7f}) {
    for (const bool chosen : {false, true}) {
      PreferenceLossArgs args =
          PairOfTokens(chosen ? std::vector<float>{sure, 2.0f} : std::vector<float>{2.0f, sure});
      args.options.kind = PreferenceKind::kOrpo;
      ASSERT_TRUE(kernels::PreferenceLoss(kernels(), args).ok());
      const std::vector<float> weights = Download(args.row_weights);
      // What is left for the chosen answer is the slope of its own loss.
      EXPECT_EQ(weights[chosen ? 0 : 1], chosen ? 1.0f : 0.0f) << sure;
      EXPECT_NE(weights[chosen ? 1 : 0], chosen ? 0.0f : 1.0f) << sure;
    }
  }
}

// A loss that is not a number is not hidden by the limit.
TEST_P(PreferenceSuite, OddsKeepNaN) {
  for (const std::vector<float>& losses : {std::vector<float>{NAN, 2.0f}, {2.0f, NAN}}) {
    PreferenceLossArgs args = PairOfTokens(losses);
    args.options.kind = PreferenceKind::kOrpo;
    ASSERT_TRUE(kernels::PreferenceLoss(kernels(), args).ok());
    EXPECT_TRUE(std::isnan(Download(args.statistics)[0]));
  }
}

// Three judged answers of one or two tokens, each before a mismatched one, and an empty place.
TEST_P(PreferenceSuite, JudgementsAreThoseOfKto) {
  const std::vector<float> losses = {2.0f, 1.5f, 0.7f, 3.0f, 1.25f, 0.5f, 2.5f, 0.25f};
  const std::vector<float> reference = {2.5f, 1.75f, 1.0f, 2.25f, 1.5f, 0.75f, 2.0f, 1.0f};
  const std::vector<int32_t> labels = {1, 0, 1, 0};
  PreferenceLossArgs args;
  args.options.kind = PreferenceKind::kKto;
  args.options.beta = 0.7f;
  args.options.desirable_weight = 1.25f;
  args.options.undesirable_weight = 0.5f;
  args.losses = Upload({8}, losses);
  args.reference = Upload({8}, reference);
  args.targets = UploadTokens({8}, {1, 1, 1, 1, 1, 1, kIgnored, 1});
  args.pairs = UploadTokens({4, 3}, {0, 2, 3, 3, 4, 5, 5, 7, 8, 0, 0, 0});
  args.labels = UploadTokens({4}, labels);
  args.divisor = Upload({1}, {1.5f});
  args.statistics = Unwritten({PreferenceStatistics::kCount});
  args.row_weights = Unwritten({8});
  const double beta = 0.7f;
  const double judged[] = {0.75, -0.75, 0.25};  // log p - log r
  const double mismatched[] = {0.3, 0.25, 0.75};
  for (const std::vector<float>& terms :
       std::vector<std::vector<float>>{{}, {0.25f, 0.75f}, {0.5f, -2.0f}}) {
    args.kl = terms.empty() ? Tensor() : Upload({2}, terms);
    const double kl = terms.empty() ? 0 : std::max(0.0f, (terms[0] + terms[1]) / 2);
    const absl::Status status = kernels::PreferenceLoss(kernels(), args);
    ASSERT_TRUE(status.ok()) << status;
    double sums[PreferenceStatistics::kCount] = {};
    std::vector<double> weights(8);
    const size_t rows[] = {0, 3, 5};
    for (size_t i = 0; i < 3; ++i) {
      const double side = labels[i] != 0 ? 1 : -1;
      const double weight = labels[i] != 0 ? 1.25 : 0.5;
      const double sigmoid = 1 / (1 + std::exp(-side * beta * (judged[i] - kl)));
      sums[0] += weight * (1 - sigmoid) / 1.5;
      sums[labels[i] != 0 ? 1 : 2] += beta * judged[i] / 1.5;
      sums[3] += side * (judged[i] - kl) > 0 ? 1 / 1.5 : 0;
      sums[4] += (terms.empty() ? mismatched[i] : kl) / 1.5;
      sums[5] += labels[i] / 1.5;
      // The derivative of 1 - sigmoid with respect to the losses, which are -log p.
      weights[rows[i]] = weight * side * beta * sigmoid * (1 - sigmoid) / 1.5;
    }
    weights[1] = weights[0];
    const std::vector<double> expected(sums, sums + PreferenceStatistics::kCount);
    ExpectClose(Download(args.statistics), expected, 1e-6, 1e-6, "statistics");
    ExpectClose(Download(args.row_weights), weights, 1e-6, 1e-6, "row_weights");
  }
}

TEST_P(PreferenceSuite, RefusesWhatDoesNotFit) {
  PreferenceLossArgs good = PairOfTokens({1.0f, 1.0f});
  good.reference = Upload({2}, {1.0f, 1.0f});
  ASSERT_TRUE(kernels::PreferenceLoss(kernels(), good).ok());
  PreferenceLossArgs args = good;
  args.reference = Tensor();
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "reference"});
  args = good;
  args.options.kind = PreferenceKind::kOrpo;
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "reference"});
  args = good;
  args.options.kind = PreferenceKind::kKto;
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "labels"});
  args = good;
  args.labels = UploadTokens({1}, {1});
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "labels"});
  args = good;
  args.kl = Upload({1}, {1.0f});
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "kl"});
  args = good;
  args.options.undesirable_weight = -1;
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "weight"});
  args = good;
  args.options.center = 0.1f;
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "center"});
  args = good;
  args.reference = Tensor();
  args.options.kind = PreferenceKind::kReward;
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "beta"});
  args = good;
  args.options.beta = 0;
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "beta"});
  args = good;
  args.options.label_smoothing = 0.5f;
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "label_smoothing"});
  args = good;
  args.pairs = UploadTokens({2}, {0, 1});
  ExpectInvalid(kernels::PreferenceLoss(kernels(), args), {"PreferenceLoss", "pairs"});
}

INSTANTIATE_TEST_SUITE_P(Devices, PreferenceSuite, testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
