// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Losses of pairs of a chosen and a rejected answer, and of answers that are judged one by one,
// computed from the losses of their tokens.

#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The loss of a pair. log p is the log-probability of an answer under the model, and log r under a
// reference model: sums over the answer's tokens for kDpo, means for the others. c is the chosen
// answer and r the rejected one; S(z) is -log sigmoid(z), or with label smoothing s (1 - s) S(z) +
// s S(-z).
enum class PreferenceKind : uint8_t {
  // S(beta ((log p(c) - log r(c)) - (log p(r) - log r(r)))): Rafailov et al., "Direct Preference
  // Optimization", 2023. A reward is beta (log p - log r).
  kDpo,
  // ((log p(c) - log r(c)) - (log p(r) - log r(r)) - 1 / (2 beta))^2: Azar et al., "A General
  // Theoretical Paradigm to Understand Learning from Human Preferences", 2023. Its reward is
  // kDpo's, made of sums over tokens.
  kIpo,
  // S(beta (log p(c) - log p(r)) - gamma): Meng et al., "SimPO", 2024. A reward is beta log p.
  kSimpo,
  // -log p(c) + beta S(logit p(c) - logit p(r)), logit p = log p - log(1 - p): Hong et al., "ORPO",
  // 2024. A reward is beta log p. In the odds, log p is at most -1e-6.
  kOrpo,
  // w (1 - sigmoid(z)): Ethayarajh et al., "KTO", 2024. z = beta (log p - log r - KL) for an answer
  // that is judged desirable, and its negative for an undesirable one; w is desirable_weight or
  // undesirable_weight. KL = max(0, mean of log p - log r over mismatched answers, which belong to
  // other prompts); the gradient treats it as a constant. Rewards as for kDpo. The first answer of
  // a pair is judged, the second mismatched.
  kKto,
  // S(f(c) - f(r)) + center (f(c) + f(r))^2, f the score that a model with one output gives to an
  // answer: Bradley and Terry, 1952. The losses are -f, and one row of each answer counts. A reward
  // is f. `beta` must be 1.
  kReward,
};

// True if the loss compares the model with a reference.
constexpr bool UsesReference(PreferenceKind kind) {
  return kind == PreferenceKind::kDpo || kind == PreferenceKind::kIpo ||
         kind == PreferenceKind::kKto;
}

struct PreferenceOptions {
  PreferenceKind kind = PreferenceKind::kDpo;
  float beta = 0.1f;              // above 0
  float label_smoothing = 0.0f;   // kDpo and kSimpo; at least 0, below 0.5
  float gamma = 0.0f;             // kSimpo: the margin; at least 0
  float desirable_weight = 1.0f;  // kKto, as the next; finite and at least 0
  float undesirable_weight = 1.0f;
  float center = 0.0f;  // kReward: draws the scores' mean to 0; finite and at least 0
};

// Means over the pairs of a batch, or with kKto over its judged answers.
struct PreferenceStatistics {
  static constexpr int64_t kCount = 6;
  static constexpr int64_t kKl = 4;  // the place of `kl`
  float loss = 0;
  float reward_chosen = 0;
  float reward_rejected = 0;
  float accuracy = 0;  // share of the pairs whose chosen answer has the larger reward
  // With kKto, the two rewards are those of desirable and undesirable answers, and `accuracy` is
  // the share of answers whose log p - log r is on the judgement's side of the KL.
  std::optional<float> kl{};  // with kKto
  float desirable = 0;        // with kKto, the share of answers that are desirable

  // From the kCount means that PreferenceLoss writes. With kKto (`of_judgements`), a desirable
  // answer counts as 0 in the mean reward of undesirable ones, and vice versa.
  static PreferenceStatistics FromMeans(const float* means, bool of_judgements);
  // False if no answer of the batch is judged so; the reward is 0 then.
  bool has_chosen() const { return !kl.has_value() || desirable > 0; }
  bool has_rejected() const { return !kl.has_value() || desirable < 1; }
  float margin() const { return reward_chosen - reward_rejected; }
};

struct PreferenceLossArgs {
  PreferenceOptions options;
  Tensor losses;     // fp32 [rows]: -log p of each target; 0 for those that do not count
  Tensor reference;  // fp32 [rows]: the same of the reference; undefined unless UsesReference
  Tensor targets;    // int32 [rows]; those of -100 do not count
  // int32 [pairs, 3]: {begin, middle, end}. The chosen answer's targets are among rows [begin,
  // middle), the rejected one's among [middle, end). begin == end: no pair. Pairs do not overlap,
  // and the caller checks that 0 <= begin <= middle <= end <= rows.
  Tensor pairs;
  // Only with kKto. int32 [pairs]: 1 if the pair's first answer is desirable, else 0.
  Tensor labels;
  // fp32 [n]: the KL is the mean of these, or 0 if it is negative. Undefined: the KL is 0, and
  // PreferenceStatistics::kKl becomes the mean of log p - log r of this batch's mismatched answers.
  Tensor kl;
  Tensor divisor;      // fp32 [1], above 0: divides sums over pairs
  Tensor statistics;   // fp32 [PreferenceStatistics::kCount], overwritten
  Tensor row_weights;  // fp32 [rows], overwritten with the derivatives of the mean loss by each
                       // row of `losses`; 0 for rows that do not count
};

namespace kernels {

// Adds up rows and pairs in their order, in float64: deterministic. An answer without a counted
// target has a mean of 0.
absl::Status PreferenceLoss(Kernels& kernels, const PreferenceLossArgs& args);

}  // namespace kernels

// The checked arguments.
struct PreferenceLossCall {
  PreferenceOptions options;
  int64_t rows = 0;
  int64_t pairs = 0;
  const float* losses = nullptr;
  const float* reference = nullptr;  // or null
  const int32_t* targets = nullptr;
  const int32_t* ranges = nullptr;  // [pairs, 3]
  const int32_t* labels = nullptr;  // or null
  const float* kl = nullptr;        // or null
  int64_t kls = 0;
  const float* divisor = nullptr;
  float* statistics = nullptr;
  float* row_weights = nullptr;
};

}  // namespace zeroth
