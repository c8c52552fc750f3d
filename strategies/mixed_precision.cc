// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/mixed_precision.h"

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Status ValidateDType(const char* field, DType dtype) {
  if (dtype == DType::kFloat32 || dtype == DType::kBFloat16) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("mixed precision: ", field, " is ",
                                                 DTypeName(dtype), ", expected fp32 or bf16"));
}

}  // namespace

absl::Status ValidateMixedPrecision(const MixedPrecision& precision) {
  ZEROTH_RETURN_IF_ERROR(ValidateDType("param_dtype", precision.param_dtype));
  return ValidateDType("reduce_dtype", precision.reduce_dtype);
}

}  // namespace zeroth
