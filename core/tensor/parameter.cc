// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/parameter.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::Status Parameter::Divide(ParameterPart part) {
  if (part_.has_value()) {
    return FailedPrecondition("parameter '", name_, "' is divided over '", part_->axis,
                              "' already");
  }
  const absl::StatusOr<Shape> shape = ShapeOfPart(global_shape_, part);
  ZEROTH_RETURN_IF_ERROR_WITH(shape.status(), absl::StrCat("parameter '", name_, "'"));
  shape_ = *shape;
  part_ = std::move(part);
  return absl::OkStatus();
}

std::vector<ElementRun> Parameter::GlobalRuns(int64_t begin, int64_t numel) const {
  if (part_.has_value()) return RunsOfPart(global_shape_, *part_, begin, numel);
  return {{begin, begin, numel}};
}

absl::StatusOr<Parameter::GradientSlot> Parameter::TakeGradient() {
  if (!requires_grad_) {
    return FailedPrecondition("parameter '", name_, "' is frozen and has no gradient");
  }
  if (!grad_.defined()) {
    if (provider_ == nullptr) {
      return FailedPrecondition("parameter '", name_,
                                "' has no storage for its gradient; call set_grad, or ",
                                "put the parameter into a unit");
    }
    ZEROTH_RETURN_IF_ERROR_WITH(
        provider_(), absl::StrCat("storage for the gradient of parameter '", name_, "'"));
    ZEROTH_CHECK(grad_.defined());
  }
  GradientSlot slot{grad_, grad_written_};
  grad_written_ = true;
  return slot;
}

}  // namespace zeroth
