// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/strategies/mixed_precision.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

absl::Status ValidateDType(const char* field, DType dtype) {
  if (IsFloatingPoint(dtype)) return absl::OkStatus();
  return InvalidArgument("mixed precision: ", field, " is ", DTypeName(dtype),
                         ", expected fp32, bf16 or fp16");
}

}  // namespace

absl::Status ValidateMixedPrecision(const MixedPrecision& precision) {
  ZEROTH_RETURN_IF_ERROR(ValidateDType("param_dtype", precision.param_dtype));
  ZEROTH_RETURN_IF_ERROR(ValidateDType("reduce_dtype", precision.reduce_dtype));
  if (precision.output_dtype.has_value()) {
    ZEROTH_RETURN_IF_ERROR(ValidateDType("output_dtype", *precision.output_dtype));
  }
  if (precision.param_dtype != DType::kFloat32 && precision.reduce_dtype != DType::kFloat32 &&
      precision.param_dtype != precision.reduce_dtype) {
    return InvalidArgument("mixed precision: param_dtype is ", DTypeName(precision.param_dtype),
                           " and reduce_dtype is ", DTypeName(precision.reduce_dtype),
                           ", expected fp32 for one of them, or the same 16-bit type for both");
  }
  if (precision.grad_accum_dtype != DType::kFloat32 &&
      precision.grad_accum_dtype != precision.reduce_dtype) {
    return InvalidArgument("mixed precision: grad_accum_dtype is ",
                           DTypeName(precision.grad_accum_dtype), " and reduce_dtype is ",
                           DTypeName(precision.reduce_dtype),
                           ", expected fp32, or the type of reduce_dtype");
  }
  if (precision.master_dtype == DType::kFloat32) return absl::OkStatus();
  if (precision.master_dtype == DType::kBFloat16 && precision.param_dtype == DType::kBFloat16) {
    return absl::OkStatus();
  }
  return InvalidArgument("mixed precision: master_dtype is ", DTypeName(precision.master_dtype),
                         " and param_dtype is ", DTypeName(precision.param_dtype),
                         ", expected fp32 masters, or bf16 masters of bf16 parameters");
}

}  // namespace zeroth
