// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Casts to 8-bit floats, and matmuls in them. Deterministic.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/fp8/fp8_format.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// Casts values to 8-bit floats with one scale for all of them, computed from these values: the
// largest magnitude becomes the format's largest number. torchao calls this "tensorwise" scaling,
// TransformerEngine "current scaling". code = value * Fp8Multiplier(amax), rounded to nearest even,
// the largest number where that would overflow, kNaNCode for NaN; value = code * scale. An infinity
// or NaN among the values makes the scale NaN, so that an overflow does not go unnoticed.
struct CastFp8Args {
  Matrix values;  // [rows, cols] fp32, bf16 or fp16
  Fp8Format format = Fp8Format::kE4M3;
  // The outputs: `codes` is uint8 [rows, cols], and `codes_transposed` has the same codes, uint8
  // [cols, PaddedFp8Depth(rows)], padded with zeros. One of the two may be undefined.
  Tensor codes;
  Tensor codes_transposed;
  Tensor scale;  // fp32 [2]: 1 / multiplier, and the largest magnitude (amax)
};

struct Fp8Operand {
  Tensor codes;  // uint8 [rows, depth]
  Fp8Format format = Fp8Format::kE4M3;
  Tensor scale;  // as CastFp8 writes it; only the first element is read
};

// c = a b^T a.scale b.scale + bias, or c += a b^T a.scale b.scale. The depth is innermost in both
// operands, the only layout in which Hopper multiplies 8-bit floats.
struct Fp8GemmArgs {
  Fp8Operand a;             // [m, k], k a multiple of kFp8Step
  Fp8Operand b;             // [n, k], n a multiple of kFp8Step; a and b must not both be e5m2
  Matrix c;                 // [m, n] fp32, bf16 or fp16; offset and stride multiples of kFp8Step
  bool accumulate = false;  // add to c; excludes bias
  Tensor bias;              // [n] of c's type, bf16 or fp16; or undefined
};

namespace kernels {

// Returns OK if this device has Fp8Gemm, else Unimplemented with the reason. Every device has
// CastFp8.
absl::Status SupportsFp8(Kernels& kernels);
absl::Status CastFp8(Kernels& kernels, const CastFp8Args& args);
// Fails with the error of SupportsFp8 if the device has no Fp8Gemm.
absl::Status Fp8Gemm(Kernels& kernels, const Fp8GemmArgs& args);

}  // namespace kernels

// The checked arguments.
struct SupportsFp8Call {};
struct CastFp8Call {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // of the values' rows
  DType dtype = DType::kFloat32;
  const void* values = nullptr;
  Fp8Format format = Fp8Format::kE4M3;
  uint8_t* codes = nullptr;             // [rows, cols], or null
  uint8_t* codes_transposed = nullptr;  // [cols, PaddedFp8Depth(rows)], or null
  float* scale = nullptr;               // [2]
};
struct Fp8GemmCall {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  const uint8_t* a = nullptr;  // [m, k]
  Fp8Format a_format = Fp8Format::kE4M3;
  const float* a_scale = nullptr;
  const uint8_t* b = nullptr;  // [n, k]
  Fp8Format b_format = Fp8Format::kE4M3;
  const float* b_scale = nullptr;
  DType c_dtype = DType::kFloat32;  // of the bias, too
  void* c = nullptr;                // [m, n]
  int64_t ldc = 0;
  bool accumulate = false;
  const void* bias = nullptr;  // [n], or null
};

}  // namespace zeroth
