// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// How far a run can grow on a machine, in one direction.

#ifndef ZEROTH_TRAIN_PLAN_LARGEST_H_
#define ZEROTH_TRAIN_PLAN_LARGEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/core/device/planned/machine.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/options.h"
#include "zeroth/train/plan.h"

namespace zeroth {

// What LargestThatFits has found.
struct LargestPlan {
  int64_t value = 0;
  std::string change;      // "--batch_size=37", "61 layers"
  int64_t next = 0;        // what follows it, and does not fit
  std::string bound;       // empty, or why nothing larger is asked about: then `next` says nothing
  int64_t parameters = 0;  // of the model, all ranks together
  TrainOptions options;    // with the value
  Plan plan;
};

// The largest of one thing with which the run fits, everything else being as `options` say: "batch"
// (sequences of a micro-batch), "sequence" (tokens) or "layers" (of the same kind). Its plan fits,
// and that of the next value does not. InvalidArgument for another `what`, for a batch that follows
// from --global_batch_size, and for layers of a model that is read from files; ResourceExhausted if
// not even the least value fits; otherwise the errors of PlanRun.
absl::StatusOr<LargestPlan> LargestThatFits(const std::string& what, const TrainOptions& options,
                                            const Machine& machine, const ModelSource& source);

// "largest   --batch_size=37, a model of 1.24e+08 parameters: 38 would not fit".
std::string LargestText(const LargestPlan& largest);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_PLAN_LARGEST_H_
