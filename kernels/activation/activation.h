// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {
namespace kernels {

// y = gelu(x) in the tanh approximation (Hendrycks and Gimpel, 2016), elementwise. x and y have one
// shape and may be the same tensor. NaN stays NaN.
absl::Status Gelu(Kernels& kernels, const Tensor& x, const Tensor& y);
// dx = dy * gelu'(x), elementwise; dx may be dy.
absl::Status GeluBackward(Kernels& kernels, const Tensor& x, const Tensor& dy, const Tensor& dx);
// out [rows, hidden] = silu(gate) * up (Shazeer, "GLU variants improve transformer", 2020). Each
// row of gate_up [rows, 2 * hidden] holds gate, then up.
//
// With a `limit` above 0, as in gpt-oss: g * sigmoid(1.702 * g) * (u + 1), where g = min(gate,
// limit) and u is up, clamped to [-limit, limit]. A value beyond its limit has a gradient of 0.
absl::Status SwiGlu(Kernels& kernels, const Tensor& gate_up, const Tensor& out, float limit = 0);
// Writes the gradients of gate and up to dgate_up, laid out as gate_up, given the gradient dout of
// out. dgate_up may be gate_up.
absl::Status SwiGluBackward(Kernels& kernels, const Tensor& gate_up, const Tensor& dout,
                            const Tensor& dgate_up, float limit = 0);

}  // namespace kernels

// The checked arguments.
struct GeluCall {
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  const void* x = nullptr;
  const void* dy = nullptr;  // null: forward, and out is y; otherwise out is dx
  void* out = nullptr;
};
struct SwiGluCall {
  int64_t rows = 0;
  int64_t hidden = 0;
  DType dtype = DType::kFloat32;
  const void* gate_up = nullptr;
  const void* dout = nullptr;  // null: forward, and `to` is out; otherwise `to` is dgate_up
  void* to = nullptr;
  float limit = 0;
};
// The factor inside the sigmoid with a limit, with which x * sigmoid(1.702 x) approximates GELU
// (Hendrycks and Gimpel, 2016).
inline constexpr float kClampedSwiGluFactor = 1.702f;

}  // namespace zeroth
