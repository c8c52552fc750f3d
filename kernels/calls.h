// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Arguments of kernels.h, once they are checked, as the numbers and pointers that an implementation
// works with: those that are the same on every device.

#ifndef ZEROTH_KERNELS_CALLS_H_
#define ZEROTH_KERNELS_CALLS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/fp8.h"
#include "zeroth/kernels/kernels.h"

namespace zeroth {

// x[0, count) in the device's memory; fp32, bf16 or fp16.
struct SquaresCall {
  int64_t count = 0;
  DType dtype = DType::kFloat32;
  const void* x = nullptr;
};
std::vector<SquaresCall> CallsOf(absl::Span<const Tensor> xs);

// Fields as in CastFp8Args; `stride` is that of the values' rows.
struct CastFp8Call {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  DType dtype = DType::kFloat32;
  const void* values = nullptr;
  Fp8Format format = Fp8Format::kE4M3;
  uint8_t* codes = nullptr;             // [rows, cols], or null
  uint8_t* codes_transposed = nullptr;  // [cols, PaddedFp8Depth(rows)], or null
  float* scale = nullptr;               // [2]
};
CastFp8Call CallOf(const CastFp8Args& args);

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_CALLS_H_
