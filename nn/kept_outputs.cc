// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/kept_outputs.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/basic/basic.h"

namespace zeroth {

absl::Status KeptOutputs::ExpectAllTaken() const {
  if (kept_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "selective activation checkpointing: the second forward has fewer operations than the first; "
      "a module that is computed again has to do the same each time");
}

absl::StatusOr<Tensor> KeptOutputs::Take() {
  if (kept_.empty()) {
    return absl::FailedPreconditionError(
        "selective activation checkpointing: the second forward has more operations than the "
        "first; a module that is computed again has to do the same each time");
  }
  Tensor output = std::move(kept_.front());
  kept_.pop_front();
  return output;
}

absl::Status ComputeOrReuseMatmul(Context& context, absl::Span<const Matrix> outputs, bool is_read,
                                  absl::FunctionRef<absl::Status()> compute) {
  KeptOutputs* const kept = context.kept_outputs();
  if (kept == nullptr || !kept->KeepsNextMatmul(is_read, /*is_sum=*/false)) {
    return is_read || !context.recording() ? compute() : absl::OkStatus();
  }
  if (!kept->is_second()) ZEROTH_RETURN_IF_ERROR(compute());
  for (const Matrix& output : outputs) {
    if (!output.tensor.defined()) continue;
    if (kept->is_second()) {
      ZEROTH_ASSIGN_OR_RETURN(const Tensor before, kept->Take());
      if (!is_read) continue;
      ZEROTH_RETURN_IF_ERROR(kernels::Basic(context.kernels(), {.a = before, .out = output}));
    } else {
      ZEROTH_ASSIGN_OR_RETURN(Tensor copy, CopyOf(context, output));
      kept->Keep(std::move(copy));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ComputeOrReuseSum(Context& context, const Shape& shape, DType dtype,
                                         bool is_read,
                                         absl::FunctionRef<absl::StatusOr<Tensor>()> compute) {
  KeptOutputs* const kept = context.kept_outputs();
  if (kept == nullptr || !kept->KeepsNextMatmul(is_read, /*is_sum=*/true)) {
    return is_read || !context.recording() ? compute() : context.Empty(shape, dtype);
  }
  if (kept->is_second()) return kept->Take();
  ZEROTH_ASSIGN_OR_RETURN(Tensor sum, compute());
  ZEROTH_ASSIGN_OR_RETURN(Tensor copy, CopyOf(context, sum));
  kept->Keep(copy.Reshape(sum.shape()));
  return sum;
}

}  // namespace zeroth
