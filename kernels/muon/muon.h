// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The parts of Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks",
// 2024) that are not matmuls. Momentum and update are elementwise and independent of an element's
// place, so that sharding a matrix changes no bit.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// The scalars of a step. They lie in device memory, so that a recorded step can be launched again
// with other values.
struct MuonCoefficients {
  float grad_scale = 1;
  float momentum = 0;
  float one_minus_momentum = 1;
  float decay = 0;  // lr * weight decay
  float step = 0;   // lr
};
inline constexpr int64_t kMuonCoefficients = 5;
static_assert(sizeof(MuonCoefficients) == kMuonCoefficients * sizeof(float));

// The scalars of both elementwise operations. NaN in grad_scale or grad_factor skips the step.
struct MuonScalars {
  Tensor coefficients;  // [kMuonCoefficients] fp32, a MuonCoefficients
  Tensor grad_factor;   // [1] fp32, or undefined for 1
};

// p = a I + b s + c s2. A Newton-Schulz step multiplies x by this matrix, where s = x x^T and s2 =
// s s. With a norm, the same matmul normalises x: p = r (a I + b q^2 s + c q^4 s2), where s is as
// MuonNormalise leaves it, r = 1 / max(sqrt(norm_squared), 1e-7), and q = r / t, in [1, 2).
struct MuonPolynomialArgs {
  Tensor s;             // [n, n] fp32, bf16 or fp16, of which the lower triangle is read
  Tensor s2;            // the same; becomes p, in its lower triangle
  Tensor norm_squared;  // [1] fp32, or undefined
  float a = 0;
  float b = 0;
  float c = 0;
};

namespace kernels {

// g = grad * grad_scale * grad_factor; m = momentum m + (1 - momentum) g; and, if `u` is defined, u
// = momentum m + (1 - momentum) g with the new m: Nesterov's. m, u: fp32 [n]; grad: fp32, bf16 or
// fp16. Momenta below the smallest normal float become zero. A skipped step leaves m as it is and
// writes zeros to u.
absl::Status MuonMomentum(Kernels& kernels, const MuonScalars& scalars, const Tensor& grad,
                          const Tensor& m, const Tensor& u);
// param -= step x + decay param, fp32 [n]. A skipped step changes nothing.
absl::Status MuonUpdate(Kernels& kernels, const MuonScalars& scalars, const Tensor& x,
                        const Tensor& param);
// norm_squared ([1] fp32) = the sum of the diagonal of s [n, n], in a fixed order; then s *= t^2 in
// the lower triangle, t being the largest power of two up to 1 / max(sqrt(norm_squared), 1e-7). So
// the square of s neither overflows nor vanishes, and a power of two in x changes no bit.
absl::Status MuonNormalise(Kernels& kernels, const Tensor& s, const Tensor& norm_squared);
absl::Status MuonPolynomial(Kernels& kernels, const MuonPolynomialArgs& args);
// Copies the lower triangle of s [n, n] to the upper one.
absl::Status MuonMirror(Kernels& kernels, const Tensor& s);

}  // namespace kernels

// The checked arguments.
struct MuonMomentumCall {
  int64_t count = 0;
  const MuonCoefficients* coefficients = nullptr;
  const float* grad_factor = nullptr;  // or null
  DType grad_dtype = DType::kFloat32;
  const void* grad = nullptr;
  float* m = nullptr;
  float* u = nullptr;  // or null
};
struct MuonUpdateCall {
  int64_t count = 0;
  const MuonCoefficients* coefficients = nullptr;
  const float* grad_factor = nullptr;  // or null
  const float* x = nullptr;
  float* param = nullptr;
};
struct MuonNormaliseCall {
  int64_t n = 0;
  DType dtype = DType::kFloat32;
  void* s = nullptr;
  float* norm_squared = nullptr;
};
struct MuonPolynomialCall {
  int64_t n = 0;
  DType dtype = DType::kFloat32;
  const void* s = nullptr;
  void* s2 = nullptr;
  const float* norm_squared = nullptr;  // or null
  float a = 0;
  float b = 0;
  float c = 0;
};
struct MuonMirrorCall {
  int64_t n = 0;
  DType dtype = DType::kFloat32;
  void* s = nullptr;
};

}  // namespace zeroth
