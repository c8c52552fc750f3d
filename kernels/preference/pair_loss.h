// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The loss of one pair, or of one judged answer, on every device.

#pragma once

#include <cmath>
#include <cstdint>

#include "zeroth/kernels/preference/preference.h"

#if defined(__CUDACC__)
#define ZEROTH_ON_EVERY_DEVICE __host__ __device__
#else
#define ZEROTH_ON_EVERY_DEVICE
#endif

namespace zeroth {

// Sums over the counted targets of one answer.
struct AnswerSums {
  double losses = 0;
  double reference = 0;
  int64_t targets = 0;
};

struct PairLoss {
  double loss = 0;
  double reward_chosen = 0;
  double reward_rejected = 0;
  // The derivatives of `loss` by AnswerSums::losses.
  double by_chosen = 0;
  double by_rejected = 0;
};

// Returns log(1 + e^x) = -log sigmoid(-x) without overflow.
ZEROTH_ON_EVERY_DEVICE inline double SoftPlus(double x) {
  return x > 0 ? x + ::log1p(::exp(-x)) : ::log1p(::exp(x));
}
ZEROTH_ON_EVERY_DEVICE inline double Sigmoid(double x) {
  if (x >= 0) return 1 / (1 + ::exp(-x));
  const double e = ::exp(x);
  return e / (1 + e);
}

ZEROTH_ON_EVERY_DEVICE inline PairLoss LossOfPair(const PreferenceOptions& options,
                                                  const AnswerSums& chosen,
                                                  const AnswerSums& rejected) {
  // Scales a sum of log-probabilities: 1 keeps the sum, 1 / count makes the mean.
  const auto scale = [&options](const AnswerSums& answer) {
    if (options.kind == PreferenceKind::kDpo || options.kind == PreferenceKind::kReward) return 1.0;
    return answer.targets > 0 ? 1 / static_cast<double>(answer.targets) : 0.0;
  };
  const double of_chosen = scale(chosen);
  const double of_rejected = scale(rejected);
  // log p, or log p - log r with a reference.
  double c = (chosen.reference - chosen.losses) * of_chosen;
  double r = (rejected.reference - rejected.losses) * of_rejected;
  const auto beta = static_cast<double>(options.beta);
  PairLoss pair;
  // With a reference, rewards are made of sums over the answer, even where the loss uses means.
  const bool of_sums = UsesReference(options.kind);
  pair.reward_chosen = beta * (of_sums ? chosen.reference - chosen.losses : c);
  pair.reward_rejected = beta * (of_sums ? rejected.reference - rejected.losses : r);
  double by_c = 0;  // derivatives of the loss by c and by r
  double by_r = 0;
  if (options.kind == PreferenceKind::kIpo) {
    const double from_target = c - r - 1 / (2 * beta);
    pair.loss = from_target * from_target;
    by_c = 2 * from_target;
    by_r = -by_c;
  } else if (options.kind == PreferenceKind::kOrpo) {
    // The odds of a probability that rounds to 1 are infinite, so they stop growing, without a
    // slope, at this log-probability. NaN stays NaN.
    constexpr double kMostLog = -1e-6;
    const bool stops_c = c >= kMostLog;
    const bool stops_r = r >= kMostLog;
    pair.loss = -c;
    c = stops_c ? kMostLog : c;
    r = stops_r ? kMostLog : r;
    const double log_odds = c - r - (::log(-::expm1(c)) - ::log(-::expm1(r)));
    pair.loss += beta * SoftPlus(-log_odds);
    const double by_odds = -beta * Sigmoid(-log_odds);
    by_c = stops_c ? -1 : -1 - by_odds / ::expm1(c);
    by_r = stops_r ? 0 : by_odds / ::expm1(r);
  } else {
    const auto smoothing = static_cast<double>(options.label_smoothing);
    const double margin =
        options.kind == PreferenceKind::kSimpo ? static_cast<double>(options.gamma) : 0.0;
    const double z = beta * (c - r) - margin;
    pair.loss = (1 - smoothing) * SoftPlus(-z) + smoothing * SoftPlus(z);
    by_c = beta * (smoothing * Sigmoid(z) - (1 - smoothing) * Sigmoid(-z));
    by_r = -by_c;
    const auto center = static_cast<double>(options.center);
    pair.loss += center * (c + r) * (c + r);
    by_c += 2 * center * (c + r);
    by_r += 2 * center * (c + r);
  }
  pair.by_chosen = -by_c * of_chosen;
  pair.by_rejected = -by_r * of_rejected;
  return pair;
}

// The terms that a pair adds to the sums behind the means of PreferenceStatistics, and the
// derivatives of its loss with respect to the two AnswerSums::losses.
struct PairNumbers {
  double sums[PreferenceStatistics::kCount] = {};
  double by_first = 0;
  double by_second = 0;
};

// Returns the numbers of a judged answer, in a batch whose KL is `kl`.
ZEROTH_ON_EVERY_DEVICE inline PairNumbers NumbersOfJudgement(const PreferenceOptions& options,
                                                             const AnswerSums& judged,
                                                             bool is_desirable, double kl) {
  const auto beta = static_cast<double>(options.beta);
  const auto weight =
      static_cast<double>(is_desirable ? options.desirable_weight : options.undesirable_weight);
  const double ratio = judged.reference - judged.losses;
  const double side = is_desirable ? 1 : -1;
  const double z = side * beta * (ratio - kl);
  PairNumbers numbers;
  numbers.sums[0] = weight * Sigmoid(-z);
  // An index that depends on the answer would put the sums into a GPU's local memory.
  numbers.sums[1] = is_desirable ? beta * ratio : 0;
  numbers.sums[2] = is_desirable ? 0 : beta * ratio;
  numbers.sums[3] = z > 0 ? 1 : 0;
  numbers.sums[PreferenceStatistics::kKl] = kl;
  numbers.sums[5] = is_desirable ? 1 : 0;
  numbers.by_first = weight * beta * side * Sigmoid(z) * Sigmoid(-z);
  return numbers;
}

// The mean of a batch's KL terms, or 0 if it is negative or there are none.
ZEROTH_ON_EVERY_DEVICE inline double MeanKl(const float* kl, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(kl[i]);
  return sum > 0 ? sum / static_cast<double>(count) : 0.0;
}

// Returns the numbers of pair `index` of the call. `kl` is the result of MeanKl.
ZEROTH_ON_EVERY_DEVICE inline PairNumbers NumbersOf(const PreferenceLossCall& call, int64_t index,
                                                    const AnswerSums& first,
                                                    const AnswerSums& second, double kl) {
  if (call.options.kind == PreferenceKind::kKto) {
    PairNumbers numbers = NumbersOfJudgement(call.options, first, call.labels[index] != 0, kl);
    if (call.kl == nullptr) {
      numbers.sums[PreferenceStatistics::kKl] = second.reference - second.losses;
    }
    return numbers;
  }
  const PairLoss pair = LossOfPair(call.options, first, second);
  const double accurate = pair.reward_chosen > pair.reward_rejected ? 1 : 0;
  return {{pair.loss, pair.reward_chosen, pair.reward_rejected, accurate, 0, 0},
          pair.by_chosen,
          pair.by_rejected};
}

}  // namespace zeroth
