// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/elements.h"

namespace zeroth::cuda {

template <typename T>
struct TypeTag {};

// Calls function(TypeTag<T>()) for the element type that `dtype` names: fp32, bf16 or fp16, which
// the operation has checked.
template <typename Function>
absl::Status DispatchType(DType dtype, const Function& function) {
  if (dtype == DType::kFloat32) return function(TypeTag<float>());
  if (dtype == DType::kBFloat16) return function(TypeTag<bf16>());
  if (dtype == DType::kFloat16) return function(TypeTag<fp16>());
  return absl::InternalError(absl::StrCat("no CUDA kernel for ", DTypeName(dtype)));
}

// Calls function(tag, other_tag) for the types of a call's operands and results. If both are 16-bit
// types, they are the same.
template <typename Function>
absl::Status DispatchPair(DType dtype, DType other, const Function& function) {
  return DispatchType(dtype, [&]<typename T>(TypeTag<T> tag) {
    return DispatchType(other, [&]<typename U>(TypeTag<U> other_tag) -> absl::Status {
      if constexpr (std::is_same_v<T, U> || std::is_same_v<T, float> || std::is_same_v<U, float>) {
        return function(tag, other_tag);
      } else {
        return absl::InternalError("no CUDA kernel for bf16 and fp16 in one call");
      }
    });
  });
}

// Calls function(width) with an integral constant: kWidth elements at a time if all arrays are
// `packed`, else 1.
template <int kWidth, typename Function>
absl::Status DispatchWidth(bool packed, const Function& function) {
  if (packed) return function(std::integral_constant<int, kWidth>());
  return function(std::integral_constant<int, 1>());
}

}  // namespace zeroth::cuda
