// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Where a step that was skipped went wrong.

#include "absl/strings/str_cat.h"

#include "zeroth/api/nonfinite_finder.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/trainer.h"

namespace zeroth {

absl::StatusOr<std::string> Trainer::FindNonFinite(absl::Span<const Batch> micro_batches) {
  ZEROTH_RETURN_IF_ERROR(ExpectOneShape(micro_batches));
  return Guarded([&]() -> absl::StatusOr<std::string> {
    ZEROTH_ASSIGN_OR_RETURN(const StepInputs inputs, MakeInputs(micro_batches));
    ZEROTH_RETURN_IF_ERROR(inputs.Fill(micro_batches, {}));
    NonFiniteFinder finder(sharding(), kernels());
    TrainingStep step(*sharded_, StepOptions(inputs));
    for (int64_t i = 0; i < inputs.micro_batches(); ++i) {
      finder.set_place(absl::StrCat("the forward of micro-batch ", i + 1));
      ZEROTH_ASSIGN_OR_RETURN(const Value loss,
                              model_->Loss(step.context(), inputs.tokens(i), inputs.targets(i)));
      finder.set_place(absl::StrCat("the backward of micro-batch ", i + 1));
      ZEROTH_RETURN_IF_ERROR(step.Backward(loss));
    }
    ZEROTH_RETURN_IF_ERROR(finder.LookAtReducedGradients());
    ZEROTH_RETURN_IF_ERROR(step.EndStep());
    ZEROTH_ASSIGN_OR_RETURN(const std::string found, finder.Agree());
    if (!found.empty()) return found;
    return std::string(
        "made again, every value of the step is finite: either the squares of its gradients add up "
        "to more than fp32 holds, or memory or a processor has failed for a moment");
  });
}

}  // namespace zeroth
