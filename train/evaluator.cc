// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/evaluator.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

int64_t Evaluator::batches() const {
  const int64_t sequences = SequencesPerStep(options_);
  return (data_.distinct_windows() + sequences - 1) / sequences;
}

std::string Evaluator::Note() const {
  if (options_.eval_batches >= batches()) return "";
  return absl::StrCat("eval      reads ", options_.eval_batches * SequencesPerStep(options_),
                      " of ", data_.distinct_windows(),
                      " held-out sequences (--eval_batches=", options_.eval_batches,
                      "); --eval_batches=", batches(), " reads all");
}

absl::StatusOr<std::optional<EvaluationMetrics>> Evaluator::Evaluate(
    Trainer& trainer, int64_t step, absl::FunctionRef<bool()> wants_to_stop) {
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<Means> means,
                          EvaluateWeights(trainer, wants_to_stop));
  if (!means.has_value()) return std::nullopt;
  EvaluationMetrics metrics;
  metrics.step = step;
  metrics.loss = means->loss;
  metrics.preference = means->preference;
  if (trainer.ema() == nullptr) return metrics;
  ZEROTH_RETURN_IF_ERROR(trainer.ema()->Swap());
  ZEROTH_ASSIGN_OR_RETURN(const std::optional<Means> of_average,
                          EvaluateWeights(trainer, wants_to_stop));
  ZEROTH_RETURN_IF_ERROR(trainer.ema()->Swap());
  if (!of_average.has_value()) return std::nullopt;
  metrics.ema_loss = of_average->loss;
  return metrics;
}

absl::StatusOr<std::optional<Evaluator::Means>> Evaluator::EvaluateWeights(
    Trainer& trainer, absl::FunctionRef<bool()> wants_to_stop) {
  const int64_t count = options_.grad_accum;
  const int64_t read = std::min(options_.eval_batches, batches());
  const bool judges = options_.objective == Objective::kKto;
  double sum = 0;
  double chosen = 0;
  double rejected = 0;
  double accurate = 0;
  double kl = 0;
  double desirable = 0;
  double weights = 0;
  bool interrupted = false;
  for (int64_t i = 0; i < read && !interrupted; ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<Batch> micro_batches,
                            data_.LoadMany(i * count, count));
    ZEROTH_ASSIGN_OR_RETURN(const StepResult result,
                            trainer.Evaluate(micro_batches, wants_to_stop()));
    // Every target counts the same, in whichever batch it is.
    const auto weight =
        static_cast<double>(CountedTargets(micro_batches).value_or(TokensPerStep(options_)));
    sum += result.loss * weight;
    const PreferenceStatistics pairs = result.preference.value_or(PreferenceStatistics());
    // With judgements, each of the two rewards is a mean over its own answers, desirable or
    // undesirable.
    const double of_chosen = judges ? pairs.desirable * weight : weight;
    chosen += pairs.reward_chosen * of_chosen;
    rejected += pairs.reward_rejected * (judges ? weight - of_chosen : weight);
    accurate += pairs.accuracy * weight;
    kl += pairs.kl.value_or(0) * weight;
    desirable += pairs.desirable * weight;
    weights += weight;
    // A signal in the last batch does not interrupt: the result is complete.
    interrupted = result.stop && i + 1 < read;
  }
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  if (interrupted) return std::nullopt;
  const auto mean = [weights](double of) {
    return static_cast<float>(of / std::max(weights, 1.0));
  };
  Means result;
  result.loss = mean(sum);
  if (options_.preference().has_value()) {
    const float means[PreferenceStatistics::kCount] = {
        mean(sum), mean(chosen), mean(rejected), mean(accurate), mean(kl), mean(desirable)};
    result.preference = PreferenceStatistics::FromMeans(means, judges);
  }
  return result;
}

}  // namespace zeroth
