// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_DISPATCH_H_
#define ZEROTH_KERNELS_CUDA_DISPATCH_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/elements.h"

namespace zeroth::cuda {

template <typename T>
struct TypeTag {
  using type = T;
};

// function(TypeTag<T>()) for the element type that `dtype` names at run time: fp32 or bf16, which
// validation has made sure of.
template <typename Function>
absl::Status DispatchType(DType dtype, const Function& function) {
  if (dtype == DType::kFloat32) return function(TypeTag<float>());
  if (dtype == DType::kBFloat16) return function(TypeTag<bf16>());
  return absl::InternalError(absl::StrCat("no CUDA kernel for ", DTypeName(dtype)));
}

// The same with fp16.
template <typename Function>
absl::Status DispatchAnyFloat(DType dtype, const Function& function) {
  if (dtype == DType::kFloat16) return function(TypeTag<fp16>());
  return DispatchType(dtype, function);
}

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_DISPATCH_H_
