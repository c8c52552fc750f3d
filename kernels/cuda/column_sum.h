// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Sums over rows, in a fixed order. The rows are divided into pieces (RowPieces). A first kernel
// sums each piece, and a second one adds the pieces' sums in order.

#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/cuda/launch_shapes.h"

namespace zeroth::cuda {

// out[c] (+)= the sum over rows r of x[r * stride + c]. `scratch` has RowPieces(rows) * columns
// elements.
absl::Status ColumnSum(int64_t rows, int64_t columns, int64_t stride, DType dtype, const void* x,
                       bool accumulate, DType out_dtype, void* out, float* scratch,
                       const LaunchTarget& target);

// out[c] (+)= the sum of `partial` [pieces, columns] over its pieces.
absl::Status SumPieces(int64_t pieces, int64_t columns, const float* partial, bool accumulate,
                       DType out_dtype, void* out, const LaunchTarget& target);

}  // namespace zeroth::cuda
