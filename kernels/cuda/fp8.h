// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_CUDA_FP8_H_
#define ZEROTH_KERNELS_CUDA_FP8_H_

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/fp8.h"

namespace zeroth::cuda {

// Fields as in CastFp8Args of kernels.h; `stride` is that of the values' rows.
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

// Two passes over the values: for the largest magnitude, and for the codes, both ways at once. The
// host does not wait for the first.
absl::Status CastFp8(const CastFp8Call& call, const LaunchTarget& target);

}  // namespace zeroth::cuda

#endif  // ZEROTH_KERNELS_CUDA_FP8_H_
