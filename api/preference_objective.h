// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include "absl/status/statusor.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/preference/preference.h"
#include "zeroth/nn/objective.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// The loss of a micro-batch of preference pairs: the sum of their losses, divided by
// Context::token_divisor, which must be defined.
class PreferenceObjective final : public TokenObjective {
 public:
  // These are tensors of PreferenceLossArgs, and undefined where that says so.
  struct Inputs {
    Tensor pairs;
    Tensor reference;
    Tensor labels{};
    Tensor kl{};
  };
  PreferenceObjective(const PreferenceOptions& options, Inputs inputs);

  absl::StatusOr<Result> Apply(Context& context, const Tensor& losses,
                               const Tensor& targets) override;

  // After Apply: fp32 [PreferenceStatistics::kCount], of which the first is the loss.
  const Tensor& statistics() const { return statistics_; }

 private:
  const PreferenceOptions options_;
  const Inputs inputs_;
  Tensor statistics_;
};

// Keeps the per-token losses of a reference model, which is only evaluated.
class KeepTokenLosses final : public TokenObjective {
 public:
  absl::StatusOr<Result> Apply(Context& context, const Tensor& losses,
                               const Tensor& targets) override;

  // After Apply: fp32 [batch, seq].
  const Tensor& losses() const { return losses_; }

 private:
  Tensor losses_;
};

}  // namespace zeroth
