// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/preference_objective.h"

#include <utility>

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

PreferenceObjective::PreferenceObjective(const PreferenceOptions& options, Inputs inputs)
    : options_(options), inputs_(std::move(inputs)) {}

absl::StatusOr<TokenObjective::Result> PreferenceObjective::Apply(Context& context,
                                                                  const Tensor& losses,
                                                                  const Tensor& targets) {
  Result result;
  ZEROTH_ASSIGN_OR_RETURN(statistics_,
                          context.Empty(Shape({PreferenceStatistics::kCount}), DType::kFloat32));
  ZEROTH_ASSIGN_OR_RETURN(result.weights, context.EmptyLike(losses));
  result.loss = statistics_.View(0, Shape({1}));
  ZEROTH_RETURN_IF_ERROR(kernels::PreferenceLoss(
      context.kernels(),
      {options_, losses, inputs_.reference, targets, inputs_.pairs, inputs_.labels, inputs_.kl,
       context.token_divisor(), statistics_, result.weights}));
  return result;
}

absl::StatusOr<TokenObjective::Result> KeepTokenLosses::Apply(Context& context,
                                                              const Tensor& losses, const Tensor&) {
  losses_ = losses;
  Result result;
  ZEROTH_ASSIGN_OR_RETURN(result.loss, context.Empty(Shape({1}), DType::kFloat32));
  return result;
}

}  // namespace zeroth
