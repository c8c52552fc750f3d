// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Plans alternatives to a run: the same training, with the same tokens in a step, but with another
// strategy, checkpointing, micro-batch or state; and how far it can grow in one direction.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/device/planned/machine.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/options/options.h"
#include "zeroth/plan/plan.h"

namespace zeroth {

struct PlannedRun {
  std::string change;  // "--strategy=full_shard --batch_size=2 --grad_accum=4"
  TrainOptions options;
  Plan plan;
};

// Builds the model of a run, with another number of layers if `layers` is set.
using ModelBuilder =
    std::function<absl::StatusOr<std::unique_ptr<LanguageModel>>(std::optional<int64_t> layers)>;

// Plans strategies x activation checkpointing x micro-batches. The runs that fit come first, the
// fastest first. Leaves out runs that the trainer refuses.
absl::StatusOr<std::vector<PlannedRun>> SearchPlans(const TrainOptions& options,
                                                    const Machine& machine,
                                                    const ModelBuilder& build);

// Returns true if the search must stop before it has tried all changes.
using StopSearch = std::function<bool()>;
inline bool NeverStop() { return false; }

// Returns at most `most` changes that make the run fit, the fastest first. Tries pairs of changes
// only if no single change is enough. Empty if nothing makes it fit. Begins no plan once `stop`
// returns true, and returns the changes found by then.
absl::StatusOr<std::vector<PlannedRun>> CheapestThatFit(const TrainOptions& options,
                                                        const Machine& machine,
                                                        const ModelBuilder& build, size_t most,
                                                        const StopSearch& stop = NeverStop);

std::string SearchText(const std::vector<PlannedRun>& runs, size_t most);
std::string CheapestText(const std::vector<PlannedRun>& runs, const Plan& asked);

// Says what to change in a run that ran out of memory: the three cheapest changes that make it fit,
// and the memory that each saves. Says so if `stop` ended the search early.
absl::StatusOr<std::string> TextOfChanges(const TrainOptions& options, const Machine& machine,
                                          const ModelBuilder& build,
                                          const StopSearch& stop = NeverStop);

// The result of LargestThatFits.
struct LargestPlan : PlannedRun {  // `change` is "--batch_size=37" or "61 layers"
  int64_t value = 0;
  int64_t next = 0;        // the next larger value, which does not fit if `bound` is empty
  std::string bound;       // why nothing larger was tried; empty: `next` was, and does not fit
  int64_t parameters = 0;  // of the model, all ranks together
};

// Returns the largest value of one quantity with which the run fits, with all other `options`
// unchanged: "batch" (sequences of a micro-batch), "sequence" (tokens) or "layers" (of the same
// kind). Its plan fits, and that of the next value does not. InvalidArgument for another `what`,
// for a batch that follows from --global_batch_size, and for layers of a model that is read from
// files; ResourceExhausted if even the least value does not fit; otherwise the errors of PlanRun.
absl::StatusOr<LargestPlan> LargestThatFits(const std::string& what, const TrainOptions& options,
                                            const Machine& machine, const ModelBuilder& build);

// "largest   --batch_size=37, a model of 1.24e+08 parameters: 38 would not fit".
std::string LargestText(const LargestPlan& largest);

}  // namespace zeroth
