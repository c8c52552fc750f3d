// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Operations on elements that know nothing of each other: an element's result does not depend on
// its place.

#ifndef ZEROTH_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
#define ZEROTH_KERNELS_ELEMENTWISE_ELEMENTWISE_H_

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
// x += weight * (target - x), each operation rounded by itself: exponential averages.
absl::Status Lerp(Kernels& kernels, const Tensor& x, const Tensor& target, float weight);
// Between fp32, bf16 and fp16, rounding to nearest even, to the bits that ToBFloat16, ToFloat16 and
// ToFloat give; the same count; not in place.
absl::Status Cast(Kernels& kernels, const Tensor& src, const Tensor& dst);

}  // namespace kernels

// What devices compute.
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

#endif  // ZEROTH_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
