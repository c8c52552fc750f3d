// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Plans of runs beside the one that was asked for: of the same training, a step having the same
// tokens, made in another way.

#ifndef ZEROTH_TRAIN_PLAN_SEARCH_H_
#define ZEROTH_TRAIN_PLAN_SEARCH_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/device/planned/machine.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/train/options.h"
#include "zeroth/train/plan.h"

namespace zeroth {

struct PlannedRun {
  std::string change;  // "--strategy=full_shard --batch_size=2 --grad_accum=4"
  TrainOptions options;
  Plan plan;
};

using ModelBuilder = std::function<absl::StatusOr<std::unique_ptr<LanguageModel>>()>;

// Strategies x activation checkpointing x micro-batches: those that fit first, and among them the
// fastest first. What the trainer refuses is left out.
absl::StatusOr<std::vector<PlannedRun>> SearchPlans(const TrainOptions& options,
                                                    const Machine& machine,
                                                    const ModelBuilder& build);

// Single changes, and pairs where none is enough, that make the run fit: at most `most`, the
// fastest first. Empty if nothing does.
absl::StatusOr<std::vector<PlannedRun>> CheapestThatFit(const TrainOptions& options,
                                                        const Machine& machine,
                                                        const ModelBuilder& build, size_t most);

std::string SearchText(const std::vector<PlannedRun>& runs, size_t most);
std::string CheapestText(const std::vector<PlannedRun>& runs, const Plan& asked);

// What to change in a run that has found no memory: the three cheapest changes that fit, and what
// each saves.
absl::StatusOr<std::string> TextOfChanges(const TrainOptions& options, const Machine& machine,
                                          const ModelBuilder& build);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_PLAN_SEARCH_H_
