// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Elementwise operations. The bits of an element's result do not depend on its place in the tensor.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace kernels {

// out = a + b, all of one shape; out may be either.
absl::Status Add(Kernels& kernels, const Tensor& a, const Tensor& b, const Tensor& out);
// x *= factor.
absl::Status Scale(Kernels& kernels, const Tensor& x, float factor);
// x += weight * (target - x), each operation rounded to fp32 separately; for exponential moving
// averages.
absl::Status Lerp(Kernels& kernels, const Tensor& x, const Tensor& target, float weight);
// Converts src to dst, each fp32, bf16 or fp16, with the same number of elements. Rounds to nearest
// even, with the same bits as ToBFloat16, ToFloat16 and ToFloat. Not in place.
absl::Status Cast(Kernels& kernels, const Tensor& src, const Tensor& dst);

}  // namespace kernels

// The checked arguments.
struct AddCall {
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
};
struct ScaleCall {
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  void* x = nullptr;
  float factor = 0;
};
struct LerpCall {
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  void* x = nullptr;
  const void* target = nullptr;
  float weight = 0;
};
struct CastCall {
  int64_t count = 0;
  DType from = DType::kFloat32;
  const void* src = nullptr;
  DType to = DType::kFloat32;
  void* dst = nullptr;
};

}  // namespace zeroth
