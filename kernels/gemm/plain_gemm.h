// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/kernels/cuda/launch_shapes.h"
#include "zeroth/kernels/gemm/gemm.h"

namespace zeroth::cuda {

// Computes the matmul by our own kernel: any shapes, strides and types, but slow.
absl::Status PlainGemm(const GemmCall& call, const LaunchTarget& target);

// Applies the epilogue of `call`, which does not accumulate, to rows [begin, begin + rows) of c,
// given their rows of op(a) op(b), [rows, n].
absl::Status ApplyEpilogue(const GemmCall& call, int64_t begin, int64_t rows, const float* product,
                           const LaunchTarget& target);

// Copies [rows, columns] of `dtype`. The distances of rows are in elements.
absl::Status CopyRows(int64_t rows, int64_t columns, DType dtype, const void* from, int64_t from_ld,
                      void* to, int64_t to_ld, const LaunchTarget& target);

}  // namespace zeroth::cuda
